package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// CheckName is the stable, machine-readable name of a pre-check.
type CheckName string

// The pre-checks.
const (
	CheckQuorum   CheckName = "Quorum"
	CheckLastNode CheckName = "LastNode"
	CheckNode     CheckName = "Node"
	CheckVMs      CheckName = "VirtualMachines"
	CheckStorage  CheckName = "Storage"
	CheckUpgrade  CheckName = "Upgrade"
	CheckCapacity CheckName = "Capacity"
)

// Finding is what a pre-check found.
type Finding struct {
	Check   CheckName `json:"check"`
	Message string    `json:"message"`
	// Warning is true when the finding does not refuse the request.
	Warning bool `json:"warning,omitempty"`
	// Remedy is a command that would help, where there is one.
	Remedy string `json:"remedy,omitempty"`
}

// check is one rule about a node that is to go into maintenance. Each appends what
// it found and none looks at what the others did: all are reported together.
type check func(*situation) []Finding

// requestChecks are the pre-checks of a request, in the order in which they are told.
var requestChecks = []check{
	checkNode, checkQuorum, checkLastNode, checkUpgrade, checkStorage, checkVMs, checkCapacity,
}

func (s *situation) run(checks []check) []Finding {
	var findings []Finding
	for _, c := range checks {
		findings = append(findings, c(s)...)
	}
	return findings
}

func refuse(name CheckName, format string, args ...any) []Finding {
	return []Finding{{Check: name, Message: fmt.Sprintf(format, args...)}}
}

// checkNode: the node exists, and is Ready or forced.
func checkNode(s *situation) []Finding {
	switch {
	case s.Node == nil:
		return refuse(CheckNode, "node %s does not exist", s.Name)
	case maintenance.NodeReady(s.Node):
		return nil
	case s.forced:
		return []Finding{{Check: CheckNode, Warning: true, Message: "the node is not Ready: its virtual machines may still be running there"}}
	}
	return refuse(CheckNode, "the node is not Ready and its virtual machines may still be running there; force overrides this")
}

// checkQuorum: over all nodes with a control-plane or etcd role, a majority remains
// Ready and out of maintenance. A member that is itself down takes nothing away.
func checkQuorum(s *situation) []Finding {
	if s.Node == nil || !quorumMember(s.Node) {
		return nil
	}
	var members, remaining int
	var missing []string
	for _, node := range s.Nodes {
		if !quorumMember(node) {
			continue
		}
		members++
		switch {
		case node.Name == s.Name:
		case !maintenance.NodeReady(node):
			missing = append(missing, node.Name+" (not Ready)")
		case s.engaged(node):
			missing = append(missing, node.Name+" (in maintenance)")
		default:
			remaining++
		}
	}
	if members == 1 {
		return refuse(CheckQuorum, "it is the only control-plane node")
	}
	majority := members/2 + 1
	if remaining >= majority || !maintenance.NodeReady(s.Node) {
		return nil
	}
	slices.Sort(missing)
	because := ""
	if len(missing) > 0 {
		because = "; out already: " + strings.Join(missing, ", ")
	}
	return refuse(CheckQuorum, "only %d of %d control-plane and etcd nodes would remain, %d are needed for quorum%s", remaining, members, majority, because)
}

// checkLastNode: some other node remains on which anything can be placed. A node
// without VMs is no exception: its pods need a place as well.
func checkLastNode(s *situation) []Finding {
	if s.Node == nil || len(s.candidates) > 0 {
		return nil
	}
	return refuse(CheckLastNode, "no other node would remain ready, schedulable and out of maintenance")
}

func checkUpgrade(s *situation) []Finding {
	if s.Upgrade == "" {
		return nil
	}
	return refuse(CheckUpgrade, "the Harvester upgrade %s is in progress and drains nodes itself", s.Upgrade)
}

// checkStorage: nothing that stays elsewhere loses its last healthy replica.
func checkStorage(s *situation) []Finding {
	if s.Node == nil {
		return nil
	}
	var findings []Finding
	for i := range s.Volumes {
		volume := &s.Volumes[i]
		if !s.lastHealthyHere(volume) {
			continue
		}
		if user, ok := s.usedElsewhere(volume); ok {
			findings = append(findings, refuse(CheckStorage, "volume %s, used by %s %s/%s, has its last healthy replica on this node", volume.Name, user.Kind, user.Namespace, user.Name)...)
		}
	}
	return findings
}

// checkVMs: no VM on the node blocks; each that does is named with its reason.
func checkVMs(s *situation) []Finding {
	var findings []Finding
	for _, fate := range s.fates() {
		if fate.Verdict == Block {
			findings = append(findings, Finding{Check: CheckVMs, Message: fate.blockMessage(), Remedy: fate.remedy()})
		}
		if fate.Paused && fate.Verdict.stops() {
			findings = append(findings, Finding{Check: CheckVMs, Warning: true, Message: fate.label() + " is paused and loses what it holds in memory: it is to be shut down"})
		}
	}
	return append(findings, s.strand()...)
}

// strand names the VMs of other draining nodes that could go nowhere but here: once this
// node is in maintenance too, neither drain would end.
func (s *situation) strand() []Finding {
	if s.Node == nil || !s.available(s.Node) {
		return nil
	}
	var findings []Finding
	for n := range s.Draining {
		i := &s.Draining[n]
		strategy := maintenance.StrategyMigrate
		if i.VM != nil {
			strategy, _, _ = maintenance.StrategyOf(i.VM.Labels)
		}
		stops := strategy.Stops() || (s.consents(i, false) && !s.forcedOn(i.VMI.Status.NodeName))
		if rule := s.placement(i); !stops && !i.VMI.IsFinal() && i.VMI.DeletionTimestamp == nil && rule.hosts(s.Node) && !s.anyHosts(rule) {
			findings = append(findings, Finding{Check: CheckVMs, Warning: s.forced, Message: fmt.Sprintf("VM %s is leaving node %s, which is being drained, and could go nowhere but here", i.Key(), i.VMI.Status.NodeName)})
		}
	}
	return findings
}

// forcedOn reports that another node's maintenance is forced, under which consent does not
// stop a VM that can move.
func (s *situation) forcedOn(name string) bool {
	for _, node := range s.Nodes {
		if node.Name == name {
			record, err := maintenance.NodeRecordOf(node)
			return err == nil && record != nil && record.Forced
		}
	}
	return false
}

// checkCapacity warns when the requests of the VMs that would move, and of those on
// other draining nodes, exceed what the remaining nodes have left. It is a lower
// bound, since only launcher pods are counted: hence a warning.
func checkCapacity(s *situation) []Finding {
	if s.Node == nil || s.Requests == nil {
		return nil
	}
	needed, free := corev1.ResourceList{}, corev1.ResourceList{}
	for _, node := range s.Nodes {
		switch {
		case node.Name == s.Name:
			for _, fate := range s.fates() {
				if fate.Verdict == Move {
					addRequests(needed, fate.instance.Launchers)
				}
			}
		case s.engaged(node):
			add(needed, s.Requests[node.Name], 1)
		case s.available(node):
			add(free, node.Status.Allocatable, 1)
			add(free, s.Requests[node.Name], -1)
		}
	}
	var findings []Finding
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
		need, have := needed[name], free[name]
		if need.Cmp(have) > 0 {
			findings = append(findings, Finding{Check: CheckCapacity, Warning: true, Message: fmt.Sprintf(
				"the virtual machines to move request %s of %s, the remaining nodes have %s left", need.String(), name, have.String())})
		}
	}
	return findings
}

func addRequests(sum corev1.ResourceList, pods []*corev1.Pod) {
	for _, pod := range pods {
		for n := range pod.Spec.Containers {
			add(sum, pod.Spec.Containers[n].Resources.Requests, 1)
		}
	}
}

func add(sum, list corev1.ResourceList, sign int64) {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
		total, q := sum[name], list[name]
		if sign < 0 {
			total.Sub(q)
		} else {
			total.Add(q)
		}
		sum[name] = total
	}
}
