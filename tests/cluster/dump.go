package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	virtv1 "kubevirt.io/api/core/v1"
)

// Events lists the events about an object, oldest first. Those about Nodes, which have no
// namespace, are in the default one; the API server looks through all of a namespace.
func (c *Cluster) Events(t testing.TB, kind, namespace, name string) []corev1.Event {
	t.Helper()
	about := fields.Set{"involvedObject.kind": kind, "involvedObject.name": name, "involvedObject.namespace": namespace}
	in := namespace
	if in == "" {
		in = metav1.NamespaceDefault
	}
	list, err := c.Kube.CoreV1().Events(in).List(t.Context(), metav1.ListOptions{FieldSelector: about.String()})
	if err != nil {
		t.Fatalf("listing events: %v", err)
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return when(&a).Compare(when(&b)) })
	return list.Items
}

// when is the event's time, in whichever of its three fields the writer put it.
func when(event *corev1.Event) time.Time {
	switch {
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	default:
		return event.CreationTimestamp.Time
	}
}

// Dump writes into the test's log what concerns it: its hosts, and VMs, VMIs,
// migrations, pods and events of its namespaces. Once per test is enough.
func (c *Cluster) Dump(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	namespaces, hosts, dumped := slices.Clone(c.namespaces), slices.Clone(c.hosts), c.dumped
	c.dumped = true
	c.mu.Unlock()
	if dumped {
		return
	}
	// The test's own context may have ended.
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var buffer bytes.Buffer
	table := tabwriter.NewWriter(&buffer, 0, 0, 2, ' ', 0)
	complain := func(err error) {
		if err != nil {
			_, _ = fmt.Fprintf(table, "(%v)\n", err)
		}
	}
	complain(c.dumpNodes(ctx, table, hosts))
	for _, namespace := range namespaces {
		complain(c.dumpVMs(ctx, table, namespace))
		complain(c.dumpPods(ctx, table, namespace))
		complain(c.dumpEvents(ctx, table, namespace))
	}
	_ = table.Flush() // into memory
	t.Logf("the cluster, as far as this test is concerned (logs: %s/logs):\n%s", c.StateDir, buffer.String())
}

func (c *Cluster) dumpNodes(ctx context.Context, out io.Writer, names []string) error {
	list, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, "NODE\tREADY\tCORDONED\tTAINTS\tANNOTATIONS")
	for n := range list.Items {
		node := &list.Items[n]
		if len(names) > 0 && !slices.Contains(names, node.Name) {
			continue
		}
		var taints, annotations []string
		for _, taint := range node.Spec.Taints {
			taints = append(taints, taint.ToString())
		}
		for key, value := range node.Annotations {
			if strings.Contains(key, "harvesterhci.io/") || strings.Contains(key, "drydock.dev/") {
				annotations = append(annotations, key+"="+value)
			}
		}
		slices.Sort(annotations)
		_, _ = fmt.Fprintf(out, "%s\t%t\t%t\t%v\t%v\n", node.Name, readyForVMs(node), node.Spec.Unschedulable, taints, annotations)
	}
	return nil
}

func (c *Cluster) dumpVMs(ctx context.Context, out io.Writer, namespace string) error {
	virt := c.KubeVirt.KubevirtV1()
	vms, err := virt.VirtualMachines(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "\nVM in %s\tSTATUS\tLABELS\tANNOTATIONS\n", namespace)
	for n := range vms.Items {
		vm := &vms.Items[n]
		_, _ = fmt.Fprintf(out, "%s\t%s\t%v\t%v\n", vm.Name, vm.Status.PrintableStatus, vm.Labels, vm.Annotations)
	}
	vmis, err := virt.VirtualMachineInstances(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "\nVMI in %s\tSTATE\n", namespace)
	for n := range vmis.Items {
		_, _ = fmt.Fprintf(out, "%s\t%s\n", vmis.Items[n].Name, brief(&vmis.Items[n]))
	}
	migrations, err := virt.VirtualMachineInstanceMigrations(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "\nMIGRATION in %s\tVMI\tPHASE\n", namespace)
	for n := range migrations.Items {
		m := &migrations.Items[n]
		_, _ = fmt.Fprintf(out, "%s\t%s\t%s\n", m.Name, m.Spec.VMIName, m.Status.Phase)
	}
	return nil
}

func (c *Cluster) dumpPods(ctx context.Context, out io.Writer, namespace string) error {
	pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "\nPOD in %s\tNODE\tPHASE\tDELETED\n", namespace)
	for n := range pods.Items {
		pod := &pods.Items[n]
		_, _ = fmt.Fprintf(out, "%s\t%s\t%s\t%t\n", pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.DeletionTimestamp != nil)
	}
	return nil
}

// dumpedEvents is enough to see what happened last.
const dumpedEvents = 40

func (c *Cluster) dumpEvents(ctx context.Context, out io.Writer, namespace string) error {
	list, err := c.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return when(&a).Compare(when(&b)) })
	_, _ = fmt.Fprintf(out, "\nEVENT in %s\n", namespace)
	for _, event := range list.Items[max(0, len(list.Items)-dumpedEvents):] {
		_, _ = fmt.Fprintf(out, "%s\t%s/%s\t%s\t%s\n", when(&event).Format(time.TimeOnly),
			event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message)
	}
	return nil
}

// brief is one line about an object, for failures.
func brief(object any) string {
	switch o := object.(type) {
	case *virtv1.VirtualMachineInstance:
		if o == nil {
			return "nothing"
		}
		return fmt.Sprintf("phase %s on %q, evacuating %q, deleted %t", o.Status.Phase, o.Status.NodeName,
			o.Status.EvacuationNodeName, o.DeletionTimestamp != nil)
	case *virtv1.VirtualMachine:
		if o == nil {
			return "nothing"
		}
		return fmt.Sprintf("status %s, deleted %t", o.Status.PrintableStatus, o.DeletionTimestamp != nil)
	}
	if value := reflect.ValueOf(object); !value.IsValid() || value.IsNil() {
		return "nothing"
	}
	return "an object, see above"
}

func eachItem(list runtime.Object, visit func(runtime.Object)) error {
	return meta.EachListItem(list, func(object runtime.Object) error {
		visit(object)
		return nil
	})
}
