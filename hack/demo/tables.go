package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// tables prints hosts, VMs and pods.
func (w *world) tables(title string) {
	fmt.Printf("\n        --- %s\n", title)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush() //nolint:errcheck // a table that cannot be printed is not missed
	fmt.Fprintln(out, "        HOST\tROLE\tSCHEDULABLE\tMAINTENANCE\tRUNNING VMS")
	nodes := list[*corev1.Node](w.nodes)
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, node := range nodes {
		role := "worker"
		if _, ok := node.Labels["node-role.kubernetes.io/control-plane"]; ok {
			role = "control plane"
		}
		schedulable := "yes"
		if node.Spec.Unschedulable {
			schedulable = "no"
		}
		fmt.Fprintf(out, "        %s\t%s\t%s\t%s\t%s\n", node.Name, role, schedulable,
			or(string(maintenance.PhaseOf(node)), "-"), or(strings.Join(w.running(node.Name), " "), "-"))
	}
	_ = out.Flush() // two tables, each with columns of its own
	fmt.Fprintln(out, "        VM\tSTRATEGY\tSTATE\tHOST")
	for _, m := range machines {
		vm := get[*kubevirtv1.VirtualMachine](w.vms, namespace+"/"+m.name)
		if vm == nil {
			continue
		}
		where := "-"
		if vmi := get[*kubevirtv1.VirtualMachineInstance](w.vmis, namespace+"/"+m.name); vmi != nil {
			where = vmi.Status.NodeName
		}
		fmt.Fprintf(out, "        %s\t%s\t%s\t%s\n", m.name, or(vm.Labels[maintenance.LabelStrategy], "(no label)"), vm.Status.PrintableStatus, where)
	}
	agents := w.nodesOf("agent")
	slices.Sort(agents)
	fmt.Fprintf(out, "        pod of Deployment web on %s; pods of DaemonSet agent on %s\n\n", strings.Join(w.nodesOf("web"), " "), strings.Join(agents, " "))
}

// running lists the VMs that run on a node.
func (w *world) running(node string) []string {
	var names []string
	for _, vmi := range list[*kubevirtv1.VirtualMachineInstance](w.vmis) {
		if vmi.Status.NodeName == node && vmi.Status.Phase == kubevirtv1.Running {
			names = append(names, vmi.Name)
		}
	}
	slices.Sort(names)
	return names
}

// or returns the fallback for an empty text.
func or(text, fallback string) string { return cmp.Or(text, fallback) }
