package soak

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// A soak that overlooks what is lost would pass for ever.
func TestWhatIsLostOrLeftBehindIsSeen(t *testing.T) {
	always, halted := virtv1.RunStrategyAlways, virtv1.RunStrategyHalted
	vm := func(run *virtv1.VirtualMachineRunStrategy) *virtv1.VirtualMachine {
		return &virtv1.VirtualMachine{Spec: virtv1.VirtualMachineSpec{RunStrategy: run}}
	}
	marked := vm(&always)
	marked.Annotations = map[string]string{maintenance.AnnotationMarker: "n1"}
	runs := &virtv1.VirtualMachineInstance{Status: virtv1.VirtualMachineInstanceStatus{
		Phase: virtv1.Running, NodeName: "n1",
		Conditions: []virtv1.VirtualMachineInstanceCondition{{Type: virtv1.VirtualMachineInstanceReady, Status: corev1.ConditionTrue}},
	}}
	evacuated := runs.DeepCopy()
	evacuated.Status.EvacuationNodeName = "n1"
	for name, test := range map[string]struct {
		owned owned
		vm    *virtv1.VirtualMachine
		vmi   *virtv1.VirtualMachineInstance
		want  string
	}{
		"runs":                         {owned{run: always}, vm(&always), runs, ""},
		"off by its owner":             {owned{run: always, off: true}, vm(&halted), nil, ""},
		"off by its label":             {owned{run: always, loose: true}, vm(&halted), nil, ""},
		"deleted":                      {owned{run: always}, nil, nil, "is gone"},
		"a marker is left":             {owned{run: always}, marked, runs, "still has"},
		"off and nobody wanted it":     {owned{run: always}, vm(&halted), nil, "nobody wanted it"},
		"started against its owner":    {owned{run: always, off: true}, vm(&always), runs, "its owner had stopped it"},
		"to run, and lost":             {owned{run: always}, vm(&always), nil, "has no instance"},
		"off, and runs":                {owned{run: always, off: true}, vm(&halted), runs, "has an instance"},
		"back as something else":       {owned{run: virtv1.RunStrategyManual}, vm(&always), runs, "came back with"},
		"a mark of evacuation is left": {owned{run: always}, vm(&always), evacuated, "marked for the evacuation"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.owned.wrong(test.vm, test.vmi); !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	for want, node := range map[string]*corev1.Node{
		"":            {},
		"is cordoned": {Spec: corev1.NodeSpec{Unschedulable: true}},
		"still has":   {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{maintenance.AnnotationNodeRecord: "{}"}}},
	} {
		if got := wrongNode(node); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("a node: %q, want %q", got, want)
		}
	}
}
