package simulator

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	virtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/kubevirt"
)

// Handler plays virt-handler on every powered host, and the launchers and
// guests it looks after.
type handler struct {
	// client has virt-handler's identity, which may update VMIs and not patch
	// them: every write carries the resource version that was looked at.
	client     kubevirt.Interface
	vmis       cache.Indexer
	pods       cache.Indexer
	registry   *registry
	guests     *guests
	memory     *memory
	complaints *complaints
	events     record.EventRecorder
	log        *slog.Logger

	loop    *loop
	kubelet *loop // the pods' queue, told when a launcher exits
}

// A pass is one look at one VMI. Roles change the copy; what they noted to do
// after the write happens only if the write went through.
type pass struct {
	*handler
	vmi       *virtv1.VirtualMachineInstance // ours to change
	before    *virtv1.VirtualMachineInstance // the cache's
	launchers []*corev1.Pod
	behaviour *settings
	now       time.Time

	again time.Duration
	after []func()
}

func (h *handler) reconcile(ctx context.Context, key string) (time.Duration, error) {
	object, exists, err := h.vmis.GetByKey(key)
	if err != nil {
		return 0, fmt.Errorf("look up VMI %s: %w", key, err)
	}
	if !exists {
		h.guests.named(key, "")
		return 0, nil
	}
	before := object.(*virtv1.VirtualMachineInstance)
	h.guests.named(key, before.UID)
	launchers, err := h.launchersOf(before)
	if err != nil {
		return 0, err
	}
	h.releaseLaunchers(before, launchers)
	if before.IsFinal() {
		h.guests.off(before.UID)
		return 0, nil
	}
	p := &pass{
		handler: h, vmi: before.DeepCopy(), before: before, launchers: launchers,
		behaviour: &settings{annotations: before.Annotations}, now: time.Now(),
	}
	p.readAll()
	err = p.run(ctx)
	h.complaints.about(before, before.UID, key, p.behaviour.bad)
	return p.again, err
}

// readAll reads every setting of a VMI, so that a value that makes no sense is
// reported when it is set and not when it would matter.
func (p *pass) readAll() {
	p.behaviour.seconds(annotationBoot, 0, true)
	p.behaviour.seconds(annotationShutdown, 0, true)
	p.behaviour.seconds(annotationMigration, 0, true)
	p.behaviour.count(annotationMigrationFailures)
	p.behaviour.reasonAndMessage(annotationNotMigratable)
	p.behaviour.oneOf(annotationPaused, wordTrue, wordFalse)
	p.behaviour.oneOf(annotationGuest, guestPowerOff, guestCrash)
}

// run lets the three roles of virt-handler look at the VMI, one after the other.
// They are separate programs on separate hosts: each writes for itself, and the
// next one acts on what it can read, never on what the other just meant to do.
func (p *pass) run(ctx context.Context) error {
	for _, role := range []func(*pass){(*pass).asTarget, (*pass).asSource, (*pass).asOwner} {
		role(p)
		if !p.changed() {
			continue
		}
		if _, err := p.client.KubevirtV1().VirtualMachineInstances(p.vmi.Namespace).Update(ctx, p.vmi, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("update VMI %s/%s: %w", p.vmi.Namespace, p.vmi.Name, err)
		}
		for _, do := range p.after {
			do()
		}
		return nil
	}
	return nil
}

func (p *pass) changed() bool {
	return !equality.Semantic.DeepEqual(p.vmi.Status, p.before.Status) ||
		!equality.Semantic.DeepEqual(p.vmi.Labels, p.before.Labels) ||
		!equality.Semantic.DeepEqual(p.vmi.Annotations, p.before.Annotations)
}

func (p *pass) then(do func()) { p.after = append(p.after, do) }

func (p *pass) event(kind string, reason virtv1.SyncEvent, message string) {
	p.then(func() { p.events.Event(p.before, kind, reason.String(), message) })
}

// lookAgain asks for another pass; the earliest wish counts.
func (p *pass) lookAgain(in time.Duration) {
	if in < never/2 {
		p.again = sooner(p.again, max(in, time.Millisecond))
	}
}

func (h *handler) launchersOf(vmi *virtv1.VirtualMachineInstance) ([]*corev1.Pod, error) {
	objects, err := h.pods.ByIndex(indexPodsByController, string(vmi.UID))
	if err != nil {
		return nil, fmt.Errorf("list the launchers of VMI %s/%s: %w", vmi.Namespace, vmi.Name, err)
	}
	var launchers []*corev1.Pod
	for _, object := range objects {
		if pod := object.(*corev1.Pod); isLauncher(pod) {
			launchers = append(launchers, pod)
		}
	}
	return launchers, nil
}

// launcherOn returns the newest launcher on a host, which is also how
// virt-controller finds a VMI's current pod.
func (p *pass) launcherOn(host string) *corev1.Pod {
	var newest *corev1.Pod
	for _, pod := range p.launchers {
		if pod.Spec.NodeName != host {
			continue
		}
		if newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp) {
			newest = pod
		}
	}
	return newest
}

func (p *pass) launcherNamed(name string) *corev1.Pod {
	for _, pod := range p.launchers {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// alive tells whether a launcher answers: virt-handler asks it over a socket
// before it does anything with a VMI.
func (h *handler) alive(pod *corev1.Pod) bool {
	if pod == nil || pod.Status.Phase != corev1.PodRunning {
		return false
	}
	on, powered := h.registry.powered(pod.Spec.NodeName)
	if !powered || h.registry.lost(on, pod.UID) {
		return false
	}
	_, gone := h.guests.launcherExit(pod.UID)
	return !gone
}

// dead is not the opposite of alive: a launcher may also not have started yet.
func (h *handler) dead(pod *corev1.Pod) bool {
	if podIsTerminal(pod) {
		return true
	}
	if on, powered := h.registry.powered(pod.Spec.NodeName); powered && h.registry.lost(on, pod.UID) {
		return true
	}
	_, gone := h.guests.launcherExit(pod.UID)
	return gone
}

// releaseLaunchers lets those launchers exit that have nothing left to do. It
// is derived from the VMI alone, so a restart of the simulator forgets nothing.
func (h *handler) releaseLaunchers(vmi *virtv1.VirtualMachineInstance, launchers []*corev1.Pod) {
	for _, pod := range launchers {
		if podIsTerminal(pod) || pod.Status.StartTime == nil || !launcherIsDone(vmi, pod) {
			continue
		}
		if h.guests.exit(pod.UID, 0) {
			h.kubelet.queue.Add(pod.Namespace + "/" + pod.Name)
		}
	}
}

func launcherIsDone(vmi *virtv1.VirtualMachineInstance, pod *corev1.Pod) bool {
	if vmi.IsFinal() {
		return true
	}
	migration := vmi.Status.MigrationState
	if migration == nil || migration.EndTimestamp == nil {
		return false
	}
	if migration.Failed {
		return pod.Name == migration.TargetPod
	}
	if migration.SourcePod != "" {
		return pod.Name == migration.SourcePod
	}
	// The node alone would not do: a later migration may lead back to it.
	return pod.Spec.NodeName == migration.SourceNode && pod.Name != migration.TargetPod &&
		migration.StartTimestamp != nil && pod.CreationTimestamp.Before(migration.StartTimestamp)
}

// rebuild finds the domains that run, after a restart of the simulator. It has
// to be done before kubelet looks at a launcher: one without a domain exits.
func (h *handler) rebuild() {
	for _, object := range h.vmis.List() {
		vmi := object.(*virtv1.VirtualMachineInstance)
		h.guests.named(vmi.Namespace+"/"+vmi.Name, vmi.UID)
		if vmi.Status.Phase != virtv1.Running {
			continue
		}
		launchers, err := h.launchersOf(vmi)
		if err != nil {
			continue
		}
		p := &pass{handler: h, launchers: launchers}
		pod := p.launcherOn(vmi.Status.NodeName)
		// A host that is off at this moment will find its launchers lost.
		if pod != nil && !podIsTerminal(pod) {
			h.guests.put(guest{vmi: vmi.UID, host: pod.Spec.NodeName, pod: pod.UID, since: pod.CreationTimestamp.Time})
		}
	}
}
