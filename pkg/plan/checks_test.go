package plan

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

func engage(node *corev1.Node, status string) {
	node.Annotations[maintenance.AnnotationStatus] = status
}

func unready(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionFalse }

// cluster makes control planes cp1…, workers w1… and, with wit, a witness for the last
// control plane.
func cluster(members, workers int, wit bool) *world {
	w := newWorld()
	names := []string{"cp1", "cp2", "cp3", "cp4", "cp5"}
	for n := range members {
		node := w.addNode(names[n], true)
		if wit && n == members-1 {
			delete(node.Labels, "node-role.kubernetes.io/control-plane")
			node.Labels["node-role.kubernetes.io/etcd"] = "true"
			node.Labels["node-role.harvesterhci.io/witness"] = "true"
			node.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/etcd", Effect: corev1.TaintEffectNoSchedule}}
		}
	}
	for n := range workers {
		w.addNode([]string{"w1", "w2"}[n], false)
	}
	return w
}

func TestQuorumAndLastNode(t *testing.T) {
	for name, test := range map[string]struct {
		members, workers int
		witness          bool
		change           func(w *world)
		target           string
		force            bool
		refusedBy        []CheckName
	}{
		"three members, all there":                       {members: 3, target: "cp1"},
		"three members, another is completed":            {members: 3, change: func(w *world) { engage(w.nodes["cp2"], "completed") }, target: "cp1", refusedBy: []CheckName{CheckQuorum}},
		"three members, another is draining":             {members: 3, change: func(w *world) { engage(w.nodes["cp2"], "running") }, target: "cp1", refusedBy: []CheckName{CheckQuorum}},
		"three members, another is down":                 {members: 3, change: func(w *world) { unready(w.nodes["cp2"]) }, target: "cp1", refusedBy: []CheckName{CheckQuorum}},
		"three members, the target itself is down":       {members: 3, change: func(w *world) { unready(w.nodes["cp2"]) }, target: "cp2", force: true},
		"the target itself is down and not forced":       {members: 3, change: func(w *world) { unready(w.nodes["cp2"]) }, target: "cp2", refusedBy: []CheckName{CheckNode}},
		"two members and a witness":                      {members: 3, witness: true, target: "cp1"},
		"the witness":                                    {members: 3, witness: true, target: "cp3"},
		"the witness while a member is out":              {members: 3, witness: true, change: func(w *world) { engage(w.nodes["cp1"], "running") }, target: "cp3", refusedBy: []CheckName{CheckQuorum}},
		"five members":                                   {members: 5, target: "cp1"},
		"five members, one out":                          {members: 5, change: func(w *world) { engage(w.nodes["cp1"], "running") }, target: "cp2"},
		"five members, two out":                          {members: 5, change: func(w *world) { engage(w.nodes["cp1"], "running"); engage(w.nodes["cp2"], "completed") }, target: "cp3", refusedBy: []CheckName{CheckQuorum}},
		"two members":                                    {members: 2, target: "cp1", refusedBy: []CheckName{CheckQuorum}},
		"force does not override quorum":                 {members: 2, target: "cp1", force: true, refusedBy: []CheckName{CheckQuorum}},
		"a single control plane":                         {members: 1, workers: 2, target: "cp1", refusedBy: []CheckName{CheckQuorum}},
		"a worker beside a single control plane":         {members: 1, workers: 2, target: "w1"},
		"a worker, all others cordoned":                  {members: 1, workers: 1, change: func(w *world) { w.nodes["cp1"].Spec.Unschedulable = true }, target: "w1", refusedBy: []CheckName{CheckLastNode}},
		"a worker, the only other one admitted just now": {members: 0, workers: 2, change: func(w *world) { w.nodes["w2"].Annotations[maintenance.AnnotationNodeRecord] = `{"id":"x"}` }, target: "w1", refusedBy: []CheckName{CheckLastNode}},
		"a single node":                                  {members: 1, target: "cp1", refusedBy: []CheckName{CheckQuorum, CheckLastNode}},
		"a member that is cordoned by hand counts":       {members: 3, change: func(w *world) { w.nodes["cp2"].Spec.Unschedulable = true }, target: "cp1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(test.members, test.workers, test.witness)
			if test.change != nil {
				test.change(w)
			}
			findings, _, err := Check(w.snapshot(test.target), test.force)
			if err != nil {
				t.Fatal(err)
			}
			var refusedBy []CheckName
			for _, f := range refusals(findings) {
				refusedBy = append(refusedBy, f.Check)
			}
			if strings.Join(asStrings(refusedBy), " ") != strings.Join(asStrings(test.refusedBy), " ") {
				t.Errorf("refused by %v, want %v: %+v", refusedBy, test.refusedBy, findings)
			}
		})
	}
}

func asStrings(names []CheckName) []string {
	var list []string
	for _, name := range names {
		list = append(list, string(name))
	}
	return list
}

// A grant that the node does not show yet counts as much as one that it shows.
func TestAGrantCountsAsEngaged(t *testing.T) {
	w := cluster(3, 0, false)
	snapshot := w.snapshot("cp1")
	snapshot.Granted = map[string]bool{"cp2": true}
	findings, _, err := Check(snapshot, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(findings) != 1 || findings[0].Check != CheckQuorum {
		t.Errorf("found %+v, want a refusal by quorum", findings)
	}
}

func TestANodeThatDoesNotExistIsNamed(t *testing.T) {
	findings, _, err := Check(cluster(3, 0, false).snapshot("n9"), false)
	if err != nil {
		t.Fatal(err)
	}
	if len(findings) != 1 || findings[0].Check != CheckNode || !strings.Contains(findings[0].Message, "n9") {
		t.Errorf("found %+v, want a refusal that names n9", findings)
	}
}

func TestAnUpgradeInProgressIsNamed(t *testing.T) {
	snapshot := cluster(3, 1, false).snapshot("w1")
	snapshot.Upgrade = "hvst-upgrade-x"
	findings, _, err := Check(snapshot, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(findings) != 1 || findings[0].Check != CheckUpgrade || !strings.Contains(findings[0].Message, "hvst-upgrade-x") {
		t.Errorf("found %+v, want a refusal that names the upgrade", findings)
	}
}

func TestCapacityIsAWarning(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	w := cluster(3, 1, false)
	for _, node := range w.nodes {
		node.Status.Allocatable = list("4", "40Gi")
	}
	w.addVM("moves", "w1", "Migrate", "Always")
	w.addVM("stays-off", "w1", "Shutdown", "Always")
	for name, test := range map[string]struct {
		requests map[string]corev1.ResourceList
		warned   int
	}{
		"room enough":        {map[string]corev1.ResourceList{"w1": list("2", "60Gi")}, 0},
		"too little memory":  {map[string]corev1.ResourceList{"w1": list("1", "60Gi"), "cp1": list("1", "30Gi"), "cp2": list("1", "30Gi"), "cp3": list("1", "30Gi")}, 1},
		"too little of both": {map[string]corev1.ResourceList{"w1": list("4", "60Gi"), "cp1": list("3", "30Gi"), "cp2": list("3", "30Gi"), "cp3": list("3", "30Gi")}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := w.snapshot("w1")
			snapshot.Requests = test.requests
			for n := range snapshot.Instances {
				// The one that is shut down for good needs no room elsewhere.
				snapshot.Instances[n].Launchers[0].Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: test.requests["w1"]}}}
			}
			findings, _, err := Check(snapshot, false)
			if err != nil {
				t.Fatal(err)
			}
			if len(findings) != test.warned || len(refusals(findings)) != 0 {
				t.Errorf("found %+v, want %d warnings and no refusal", findings, test.warned)
			}
		})
	}
}

func TestStorageOfOthers(t *testing.T) {
	user := VolumeUser{Kind: "Deployment", Namespace: "shop", Name: "web"}
	for name, test := range map[string]struct {
		volume  Volume
		change  func(w *world)
		refused bool
	}{
		"the last healthy replica is here":          {volume: Volume{Name: "v", Users: []VolumeUser{user}, Healthy: []string{"w1"}}, refused: true},
		"another one is healthy elsewhere":          {volume: Volume{Name: "v", Users: []VolumeUser{user}, Healthy: []string{"w1", "w2"}}},
		"the other one is on a node in maintenance": {volume: Volume{Name: "v", Users: []VolumeUser{user}, Healthy: []string{"w1", "w2"}}, change: func(w *world) { engage(w.nodes["w2"], "running") }, refused: true},
		"the other one is on a node that is down":   {volume: Volume{Name: "v", Users: []VolumeUser{user}, Healthy: []string{"w1", "w2"}}, change: func(w *world) { unready(w.nodes["w2"]) }, refused: true},
		"nobody uses it":                            {volume: Volume{Name: "v", Healthy: []string{"w1"}}},
		"none is healthy anywhere":                  {volume: Volume{Name: "v", Users: []VolumeUser{user}}},
		"a VM of this node uses it":                 {volume: Volume{Name: "v", Users: []VolumeUser{{Kind: "VirtualMachineInstance", Namespace: "ns", Name: "here"}}, Healthy: []string{"w1"}}},
		"a VM of another node uses it":              {volume: Volume{Name: "v", Users: []VolumeUser{{Kind: "VirtualMachineInstance", Namespace: "ns", Name: "there"}}, Healthy: []string{"w1"}}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(3, 2, false)
			w.addVM("here", "w1", "Shutdown", "Always")
			w.addVM("there", "w2", "Shutdown", "Always")
			if test.change != nil {
				test.change(w)
			}
			snapshot := w.snapshot("w1")
			snapshot.Volumes = []Volume{test.volume}
			findings, _, err := Check(snapshot, true)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(refusals(findings)) > 0; got != test.refused {
				t.Errorf("refused is %t, want %t: %+v", got, test.refused, findings)
			}
		})
	}
}

// Kubernetes' own taints follow what a node says of itself, a moment later: a node that
// has just been left, or has just come back, takes VMs all the same.
func TestATaintThatLagsBehindItsNodeKeepsNoVMAway(t *testing.T) {
	for key, refused := range map[string]bool{
		corev1.TaintNodeUnschedulable: false, corev1.TaintNodeNotReady: false, corev1.TaintNodeUnreachable: false,
		corev1.TaintNodeMemoryPressure: true, "example.com/reserved": true,
	} {
		w := cluster(0, 2, false)
		w.addVM("a", "w1", "", "Always")
		w.nodes["w2"].Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
		findings, _, err := Check(w.snapshot("w1"), false)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(refusals(findings)) > 0; got != refused {
			t.Errorf("with taint %s on the only other node it is refused: %t, want %t: %+v", key, got, refused, findings)
		}
	}
}

// Of two nodes that drain one after the other, the second must not be the only place for
// a VM of the first.
func TestAVMOfAnotherDrainingNodeIsNotStranded(t *testing.T) {
	w := cluster(3, 2, false)
	w.addVM("a", "w1", "", "Always").Spec.Template.Spec.NodeSelector = map[string]string{"disk": "fast"}
	for _, name := range []string{"w1", "w2"} {
		w.nodes[name].Labels["disk"] = "fast"
	}
	engage(w.nodes["w1"], "running")
	for _, force := range []bool{false, true} {
		snapshot := w.snapshot("w2")
		snapshot.Draining = w.snapshot("w1").Instances
		findings, _, err := Check(snapshot, force)
		if err != nil {
			t.Fatal(err)
		}
		if len(findings) != 1 || !strings.Contains(findings[0].Message, "ns/a") || findings[0].Warning != force {
			t.Errorf("force %t: found %+v", force, findings)
		}
	}
	w.nodes["cp1"].Labels["disk"] = "fast"
	snapshot := w.snapshot("w2")
	snapshot.Draining = w.snapshot("w1").Instances
	if findings, _, err := Check(snapshot, false); err != nil || len(refusals(findings)) > 0 {
		t.Errorf("with another place for it: found %+v, %v", findings, err)
	}
}

// What is stopped on its own node, or ends there, needs no place on this one.
func TestOnlyAVMThatMovesIsStranded(t *testing.T) {
	label := func(strategy string) func(*Instance) {
		return func(i *Instance) { i.VM.Labels[maintenance.LabelStrategy] = strategy }
	}
	for name, test := range map[string]struct {
		change  func(*Instance)
		forced  bool // on the node that it leaves
		refused bool
	}{
		"it is moved":                                    {change: label("Migrate"), refused: true},
		"its label has it shut down":                     {change: label("ShutdownAndRestartAfterEnable")},
		"its template allows an interruption":            {change: template(kubevirtv1.EvictionStrategyNone)},
		"force has it moved nevertheless":                {change: template(kubevirtv1.EvictionStrategyNone), forced: true, refused: true},
		"only the cluster's default allows one":          {change: effective(kubevirtv1.EvictionStrategyNone), refused: true},
		"its template allows one where it cannot move":   {change: template(kubevirtv1.EvictionStrategyLiveMigrateIfPossible), refused: true},
		"it has no VM":                                   {change: func(i *Instance) { i.VMI.Spec.NodeSelector = i.VM.Spec.Template.Spec.NodeSelector; bare(i) }, refused: true},
		"it has ended":                                   {change: func(i *Instance) { i.VMI.Status.Phase = kubevirtv1.Succeeded }},
		"it is being shut down, which takes a while yet": {change: func(i *Instance) { i.VMI.DeletionTimestamp = &metav1.Time{} }},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(3, 2, false)
			w.addVM("a", "w1", "", "Always").Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "w2"}
			w.nodes["w2"].Labels[corev1.LabelHostname] = "w2"
			leaving := draining(w)
			leaving.Annotations[maintenance.AnnotationNodeRecord] = (&maintenance.NodeRecord{ID: "id", Cordoned: true, Forced: test.forced}).Encode()
			s := w.snapshot("w2")
			s.Draining, s.Config.PossibleIsConsent = w.snapshot("w1").Instances, true
			test.change(&s.Draining[0])
			findings, _, err := Check(s, false)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(Refusal(findings), "VM ns/a is leaving node w1"); got != test.refused || len(findings) > 1 {
				t.Errorf("refused is %t, want %t: %+v", got, test.refused, findings)
			}
		})
	}
}
