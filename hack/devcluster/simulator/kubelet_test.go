package simulator

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
)

// A launcher that no guest ever comes to gives up, as the target of a migration does that
// was deleted at the wrong moment; one that has seen a guest does not, wherever that is now.
func TestALauncherWithoutAGuestGivesUp(t *testing.T) {
	started := time.Now()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod", Labels: map[string]string{virtv1.AppLabel: launcherAppLabel}, OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(&virtv1.VirtualMachineInstance{}, virtv1.VirtualMachineInstanceGroupVersionKind),
	}}}
	pod.Status.StartTime = &metav1.Time{Time: started}
	for name, see := range map[string]func(*guests){
		"none":                       func(*guests) {},
		"another's":                  func(g *guests) { g.put(guest{vmi: "vmi", pod: "another"}) },
		"its own":                    func(g *guests) { g.put(guest{vmi: "vmi", pod: "pod"}) },
		"one that was":               func(g *guests) { g.put(guest{vmi: "vmi", pod: "pod"}); g.put(guest{vmi: "vmi", pod: "another"}) },
		"one that is being received": func(g *guests) { g.see("pod") },
	} {
		k := &kubelet{guests: newGuests()}
		see(k.guests)
		lonely := name == "none" || name == "another's"
		over, again := k.finished(pod, &settings{}, started.Add(launcherPatience-time.Second))
		if over != nil || (again == time.Second) != lonely {
			t.Errorf("%s, before the time: %+v, to look again in %s", name, over, again)
		}
		over, _ = k.finished(pod, &settings{}, started.Add(launcherPatience))
		if (over != nil) != lonely || lonely && over.code != exitPanicked {
			t.Errorf("%s: %+v", name, over)
		}
	}
}
