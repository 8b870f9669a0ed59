package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
)

// owned is what is known of a VM from what people did to it, and nothing else.
type owned struct {
	run      virtv1.VirtualMachineRunStrategy
	strategy maintenance.Strategy
	// off says that its owner stopped it.
	off bool
	// loose says that in this round it may have been stopped for good: by its own label,
	// by force, or because the label that promised a restart was taken away.
	loose bool
}

// world is the hosts and VMs of the soak.
type world struct {
	c    *cluster.Cluster
	pool *cluster.Pool
	ns   string

	mu  sync.Mutex
	vms [vms]owned
}

func populate(t *testing.T, c *cluster.Cluster) *world {
	t.Helper()
	w := &world{c: c, pool: c.Pool(t, hosts), ns: c.Namespace(t)}
	for n := range w.vms {
		o := owned{run: virtv1.RunStrategyAlways, strategy: strategies[n%len(strategies)]}
		if n%3 == 0 {
			o.run = virtv1.RunStrategyRerunOnFailure
		}
		vm := c.VM(w.ns, nameOf(n)).PinnedTo(w.pool).EvictionStrategy(virtv1.EvictionStrategyLiveMigrate).RunStrategy(o.run)
		if o.strategy != "" {
			vm.Strategy(string(o.strategy))
		}
		vm.Submit(t)
		w.vms[n] = o
	}
	return w
}

// begin opens a round: what may happen to a VM follows from its label and from force.
func (w *world) begin(r round) {
	forces := r.forces()
	for n := range w.vms {
		o := &w.vms[n]
		o.loose = o.strategy == maintenance.StrategyShutdown || forces && restarts(o.strategy)
	}
}

// end closes it: whoever was stopped for good has been started again.
func (w *world) end() {
	for n := range w.vms {
		w.vms[n].loose = false
	}
}

func restarts(s maintenance.Strategy) bool {
	return s == maintenance.StrategyRestartAfterEnable || s == maintenance.StrategyRestartAfterDisable
}

// relabel changes a VM's strategy, as its owner would.
func (w *world) relabel(ctx context.Context, n int, to maintenance.Strategy, forces bool) error {
	var value any
	if to != "" {
		value = to
	}
	// Before the write, which may be obeyed at once.
	w.mu.Lock()
	o := &w.vms[n]
	if o.strategy == maintenance.StrategyShutdown || to == maintenance.StrategyShutdown || restarts(o.strategy) && !restarts(to) || forces && restarts(to) {
		o.loose = true
	}
	o.strategy = to
	w.mu.Unlock()
	return w.patchVM(ctx, n, map[string]any{"metadata": map[string]any{"labels": map[string]any{maintenance.LabelStrategy: value}}})
}

// power starts a VM that is off and stops one that is not, as its owner sees it: a write
// that finds something else is decided about again, and one that is stopping is waited for.
// Under RerunOnFailure KubeVirt takes a start that comes before the guest is off for none,
// and the end of the guest for the guest's own wish.
func (w *world) power(ctx context.Context, n int) error {
	for {
		vm, err := w.c.KubeVirt.KubevirtV1().VirtualMachines(w.ns).Get(ctx, nameOf(n), metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading %s: %w", nameOf(n), err)
		}
		to, off := virtv1.RunStrategyHalted, true
		if isHalted(vm) {
			if vm.Status.RunStrategy != virtv1.RunStrategyHalted || vm.Status.Created {
				if err := pause(ctx, 300*time.Millisecond); err != nil {
					return err
				}
				continue
			}
			to, off = w.vms[n].run, false
		}
		err = w.patchVM(ctx, n, map[string]any{
			"metadata": map[string]any{"resourceVersion": vm.ResourceVersion}, "spec": map[string]any{"runStrategy": to},
		})
		if apierrors.IsConflict(err) {
			continue
		}
		if err == nil {
			w.mu.Lock()
			w.vms[n].off = off
			w.mu.Unlock()
		}
		return err
	}
}

func (w *world) patchVM(ctx context.Context, n int, body map[string]any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("patch of %s: %w", nameOf(n), err)
	}
	if _, err := w.c.KubeVirt.KubevirtV1().VirtualMachines(w.ns).Patch(ctx, nameOf(n), types.MergePatchType, raw, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch of %s: %w", nameOf(n), err)
	}
	return nil
}

func isHalted(vm *virtv1.VirtualMachine) bool {
	return vm.Spec.RunStrategy != nil && *vm.Spec.RunStrategy == virtv1.RunStrategyHalted
}

// wrong lists what is not as it must be once no node is in maintenance.
func (w *world) wrong(ctx context.Context) ([]string, error) {
	machines, err := w.c.KubeVirt.KubevirtV1().VirtualMachines(w.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing VMs: %w", err)
	}
	instances, err := w.c.KubeVirt.KubevirtV1().VirtualMachineInstances(w.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing VMIs: %w", err)
	}
	nodes, err := w.c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	running := map[string]*virtv1.VirtualMachineInstance{}
	for n := range instances.Items {
		running[instances.Items[n].Name] = &instances.Items[n]
	}
	found := map[string]*virtv1.VirtualMachine{}
	for n := range machines.Items {
		found[machines.Items[n].Name] = &machines.Items[n]
	}
	var problems []string
	for n := range w.vms {
		if problem := w.vms[n].wrong(found[nameOf(n)], running[nameOf(n)]); problem != "" {
			problems = append(problems, nameOf(n)+" "+problem)
		}
	}
	for n := range nodes.Items {
		if problem := wrongNode(&nodes.Items[n]); problem != "" {
			problems = append(problems, nodes.Items[n].Name+" "+problem)
		}
	}
	return problems, nil
}

// wrong says what is the matter with a VM, "" when nothing is.
func (o *owned) wrong(vm *virtv1.VirtualMachine, vmi *virtv1.VirtualMachineInstance) string {
	if vm == nil {
		return "is gone"
	}
	for _, key := range []string{maintenance.AnnotationMarker, maintenance.AnnotationVMRecord} {
		if value, ok := vm.Annotations[key]; ok {
			return fmt.Sprintf("still has %s=%s", key, value)
		}
	}
	off := isHalted(vm)
	switch {
	case o.off && !off:
		return "was started, though its owner had stopped it"
	case !o.off && off && !o.loose:
		return "is off, though nobody wanted it to be"
	case off && vmi != nil:
		return "is to be off, and has an instance in phase " + string(vmi.Status.Phase)
	case off:
		return ""
	case *vm.Spec.RunStrategy != o.run:
		return "came back with run strategy " + string(*vm.Spec.RunStrategy)
	case vmi == nil:
		return "is to run, and has no instance"
	case !cluster.IsRunning(vmi) || vmi.DeletionTimestamp != nil:
		return "is to run, and its instance is in phase " + string(vmi.Status.Phase)
	case vmi.Status.EvacuationNodeName != "":
		return "is still marked for the evacuation of " + vmi.Status.EvacuationNodeName
	}
	return ""
}

// wrongNode says what a node still shows of a maintenance.
func wrongNode(node *corev1.Node) string {
	if node.Spec.Unschedulable {
		return "is cordoned"
	}
	if condition := maintenance.Condition(node); condition != nil {
		return "still says " + condition.Reason + ": " + condition.Message
	}
	for key := range node.Annotations {
		if key == maintenance.AnnotationRequested || key == maintenance.AnnotationForced || key == maintenance.AnnotationStatus || strings.HasPrefix(key, "drydock.dev/") {
			return "still has " + key
		}
	}
	return ""
}

// off returns the VMs that are off after a round, those of which nobody wanted it first.
func (w *world) off(ctx context.Context) (stopped []int, byOwner []int, err error) {
	list, err := w.c.KubeVirt.KubevirtV1().VirtualMachines(w.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("listing VMs: %w", err)
	}
	halted := map[string]bool{}
	for n := range list.Items {
		halted[list.Items[n].Name] = isHalted(&list.Items[n])
	}
	for n := range w.vms {
		switch {
		case w.vms[n].off:
			byOwner = append(byOwner, n)
		case halted[nameOf(n)]:
			stopped = append(stopped, n)
		}
	}
	return stopped, byOwner, nil
}
