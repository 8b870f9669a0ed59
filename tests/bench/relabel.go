package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

// relabelAim is how long all VMIs and pods may take to follow.
const relabelAim = 10 * time.Second

// relabelHosts is enough for the pods of 500 VMs: a host takes 110.
const relabelHosts = 10

// relabelled knows since when VMIs and launcher pods have the new label, by VM.
type relabelled struct {
	*observer
	vmis, pods map[string]time.Time
}

// note keeps the first time at which an object was seen with the label.
func note(seen map[string]time.Time, vm string, labels map[string]string, now time.Time) {
	if _, known := seen[vm]; !known && labels[maintenance.LabelStrategy] == relabelTo {
		seen[vm] = now
	}
}

const relabelTo = string(maintenance.StrategyShutdown)

// relabelVMs measures how long a label takes from many VMs to their VMIs and pods, what
// that costs, and what the manager needs meanwhile, at rest and while it drains.
func (p program) relabelVMs(t *attempt, vms int) {
	c := cluster.For(t)
	pool, ns := c.Pool(t, relabelHosts), c.Namespace(t)
	t.Logf("starting %d VMs", vms)
	names := make([]string, vms)
	all := make([]*cluster.VM, vms)
	for n := range all {
		names[n] = fmt.Sprintf("vm-%03d", n)
		all[n] = c.VM(ns, names[n]).PinnedTo(pool)
		all[n].Submit(t)
	}
	for _, vm := range all {
		vm.AwaitRunning(t)
	}
	floor := relabelFloor(t, c, ns, names)
	user := strings.ToLower(pool.Label + "-labels")
	m := manager.Start(t, c.Kubeconfig(t, user), "--webhook", "--api")
	t.Cleanup(func() {
		if _, err := m.Terminate(); err != nil {
			t.Logf("ending the manager: %v", err)
		}
	})
	s := &scene{Cluster: c, user: user}
	s.settle(t)
	needs := &needs{manager: m}
	seen := &relabelled{observer: &observer{changed: make(chan struct{})}, vmis: map[string]time.Time{}, pods: map[string]time.Time{}}
	follow(t, seen.observer, c.KubeVirt.KubevirtV1().VirtualMachineInstances(ns), func(now time.Time, vmi *virtv1.VirtualMachineInstance, _ bool) {
		note(seen.vmis, vmi.Name, vmi.Labels, now)
	})
	follow(t, seen.observer, c.Kube.CoreV1().Pods(ns), func(now time.Time, pod *corev1.Pod, _ bool) {
		note(seen.pods, pod.Annotations[virtv1.DomainAnnotation], pod.Labels, now)
	})
	audit := s.Audit(t, user)

	needs.begin(t)
	began := time.Now()
	patch := labelPatch(relabelTo)
	var labelled sync.Map // since when each VM has it
	if err := inParallel(t.Context(), names, 20, func(ctx context.Context, name string) error {
		_, err := c.KubeVirt.KubevirtV1().VirtualMachines(ns).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		labelled.Store(name, time.Now())
		return err
	}); err != nil {
		t.Fatalf("labelling: %v", err)
	}
	asked := time.Since(began)
	seen.await(t, vms)
	followed := time.Since(began)
	needs.end(t, "labels")
	s.settle(t)
	sent := audit.Requests(t)
	c.Pool(t, bystanders)
	s.settle(t)
	needs.idle(t)
	needs.drain(t, s.Cluster, pool.Hosts[:drained])
	fmt.Print(relabelTable(floor, asked, followed, seen.waits(&labelled), sent), needs.String())
}

func labelPatch(value string) []byte {
	return fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, maintenance.LabelStrategy, value)
}

// relabelFloor is how long the same writes take one client, without a manager: what the
// cluster itself needs for them.
func relabelFloor(t *attempt, c *cluster.Cluster, ns string, names []string) time.Duration {
	pods, err := c.Kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("listing launchers: %v", err)
	}
	launchers := map[string]string{}
	for n := range pods.Items {
		launchers[pods.Items[n].Annotations[virtv1.DomainAnnotation]] = pods.Items[n].Name
	}
	began, patch := time.Now(), labelPatch(string(maintenance.StrategyMigrate))
	if err := inParallel(t.Context(), names, 20, func(ctx context.Context, name string) error {
		_, vmErr := c.KubeVirt.KubevirtV1().VirtualMachines(ns).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		_, vmiErr := c.KubeVirt.KubevirtV1().VirtualMachineInstances(ns).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		_, podErr := c.Kube.CoreV1().Pods(ns).Patch(ctx, launchers[name], types.MergePatchType, patch, metav1.PatchOptions{})
		return errors.Join(vmErr, vmiErr, podErr)
	}); err != nil {
		t.Fatalf("labelling without a manager: %v", err)
	}
	return time.Since(began)
}

// await returns when everything has the label.
func (r *relabelled) await(t *attempt, vms int) {
	limit := time.After(12 * relabelAim)
	for {
		r.mu.Lock()
		vmis, pods, changed := len(r.vmis), len(r.pods), r.changed
		r.mu.Unlock()
		if vmis == vms && pods == vms {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-limit:
			t.Fatalf("after %s %d VMIs and %d pods of %d have the label", 12*relabelAim, vmis, pods, vms)
		}
	}
}

// waits are how long after the answer to its owner each VM had the label everywhere,
// shortest first.
func (r *relabelled) waits(labelled *sync.Map) []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []time.Duration
	labelled.Range(func(name, since any) bool {
		vm, from := name.(string), since.(time.Time) // relabelVMs fills it
		all = append(all, max(r.vmis[vm].Sub(from), r.pods[vm].Sub(from), 0))
		return true
	})
	slices.Sort(all)
	return all
}

// inParallel calls f for every item, so many at a time, and returns the first error.
func inParallel(ctx context.Context, items []string, width int, f func(context.Context, string) error) error {
	queue := make(chan string)
	failed := make(chan error, len(items))
	var wait sync.WaitGroup
	for range width {
		wait.Go(func() {
			for item := range queue {
				if err := f(ctx, item); err != nil {
					failed <- err
				}
			}
		})
	}
	for _, item := range items {
		queue <- item
	}
	close(queue)
	wait.Wait()
	close(failed)
	return <-failed
}

func relabelTable(floor, asked, all time.Duration, waits []time.Duration, sent []cluster.Request) string {
	writes, conflicts, most := map[string]int{}, 0, 0
	for _, r := range sent {
		if r.Verb != "patch" || (r.Resource != "pods" && r.Resource != "virtualmachineinstances") {
			continue
		}
		if r.Code != 200 {
			conflicts++
			continue
		}
		key := r.Resource + "/" + r.Name
		writes[key]++
		most = max(most, writes[key])
	}
	total := 0
	for _, n := range writes {
		total += n
	}
	return fmt.Sprintf("\n%d VMs relabelled at once (aim: all VMIs and pods right within %s, at most one write for each object)\n\n"+
		"   floor: a client that writes VMs, VMIs and pods itself, 20 at a time   %s\n   the last VM was labelled after   %s\n   all VMIs and pods were right after   %s\n"+
		"   from the answer to the owner until VMI and pod were right   p50 %s, p99 %s, longest %s\n   writes   %d on %d objects, at most %d on one\n   refused writes   %d\n   requests of any kind but watches and leases   %d\n",
		len(waits), relabelAim, seconds(floor), seconds(asked), seconds(all), seconds(waits[len(waits)/2]), seconds(waits[len(waits)*99/100]), seconds(waits[len(waits)-1]), total, len(writes), most, conflicts, count(sent).total)
}
