package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Snapshot is everything that decides about one node, observed at one moment. The
// objects are shared with caches: nothing in this package changes them.
type Snapshot struct {
	// Now is the time of the observation; the package has no clock of its own.
	Now time.Time
	// Node is the subject; nil when it does not exist.
	Node *corev1.Node
	// Name is the subject's name, also when it does not exist.
	Name string
	// Nodes are all nodes of the cluster, the subject among them.
	Nodes []*corev1.Node
	// FirstLook is true in this process's first pass over the node: another one may have
	// had its name while nobody looked.
	FirstLook bool
	// Granted names nodes that were admitted a moment ago and may not show it yet.
	// They count as engaged.
	Granted map[string]bool
	// Instances are the VMIs on the node, in any sense of the package's documentation.
	Instances []Instance
	// Draining are the VMIs on other nodes that are being drained; only for admission.
	Draining []Instance
	// Pods are the other pods on the node that a drain would remove; see PodsKnown.
	Pods []Pod
	// PodsKnown is false until the node's pods have been listed: then nothing may be
	// concluded from an empty Pods.
	PodsKnown bool
	// Stopped are the VMs with a record of Drydock's that names this node.
	Stopped []StoppedVM
	// Migrations counts the unfinished migrations.
	Migrations Slots
	// Volumes are the Longhorn volumes with a replica on this node, and those of
	// VMs on it; nil where Longhorn is not installed.
	Volumes []Volume
	// Pending names what is installed and not known yet, as after a start, "" for
	// nothing. Nothing may be concluded from its absence in the snapshot. That something
	// has become known brings new passes, see Controller.Reconsider.
	Pending string
	// PendingAgain is when to look again at what is pending, 0 where an event of it leads
	// here in any case.
	PendingAgain time.Duration
	// ID is an id that nothing has; a new request gets it.
	ID string
	// Upgrade names a Harvester upgrade in progress; "" when there is none.
	Upgrade string
	// Attempts holds what this process remembers of evictions, by pod UID, and of its
	// own migrations, by VMI UID. Losing it costs repeated requests, never a wrong
	// decision.
	Attempts map[types.UID]Attempt
	// NoTarget holds since when this process has seen that no node takes a VMI, by its
	// UID. Losing it makes force wait anew.
	NoTarget map[types.UID]time.Time
	// Requests holds the summed requests of the launcher pods on each node, for the
	// capacity warning; nil outside admission.
	Requests map[string]corev1.ResourceList
	// KubeVirt is the cluster's configuration.
	KubeVirt KubeVirt
	// Config holds Drydock's own settings.
	Config Config
}

// Instance is a VMI and what belongs to it.
type Instance struct {
	VMI *kubevirtv1.VirtualMachineInstance
	// VM is the owner; nil for a bare VMI and one of a replica set or pool.
	VM *kubevirtv1.VirtualMachine
	// OwnerUnknown is true when a VM owns the VMI and cannot be found: it may ask for
	// anything.
	OwnerUnknown bool
	// Launchers are its launcher pods on this node that are not final.
	Launchers []*corev1.Pod
	// Targets are its launcher pods on other nodes, or on none yet.
	Targets []*corev1.Pod
	// Migrations are all its migrations that still exist, oldest first.
	Migrations []*kubevirtv1.VirtualMachineInstanceMigration
}

// StoppedVM is a VM that Drydock stopped, with what decides about its start.
type StoppedVM struct {
	VM     *kubevirtv1.VirtualMachine
	Record *maintenance.VMRecord
	// VMI is the instance of the VM's name; nil when there is none.
	VMI *kubevirtv1.VirtualMachineInstance
	// Launchers are those of the instance that was stopped which have not ended: it may
	// still run, be its VMI gone.
	Launchers []*corev1.Pod
	// Volumes are the Longhorn volumes of the VM.
	Volumes []Volume
	// StartCalls counts calls of the start subresource by this process. LastTry is when it
	// last made one, or before that put the run strategy back, whether that came through
	// or not.
	StartCalls int
	LastTry    time.Time
}

// Pod is a pod that a drain would remove.
type Pod struct {
	*corev1.Pod
	// Budgets are the PodDisruptionBudgets whose selector matches it.
	Budgets []*policyv1.PodDisruptionBudget
	// Policy explains a held Longhorn instance manager, "" otherwise.
	Policy string
}

// Attempt is an eviction or migration that was asked for.
type Attempt struct {
	// Count is how often. Last is when it last was asked for, or taken back.
	Count int
	Last  time.Time
	// Sent is when the last request for an eviction was sent: what came of it may be older
	// than its answer.
	Sent time.Time
	// Code is the HTTP status of the last answer, Message its text.
	Code    int
	Message string
	// Withdrawn says why it was taken back since, "" where it was not or for no reason of
	// the VM's.
	Withdrawn string
	// Node is where the pod or VMI was, Owner the UID of the pod's controller.
	Node  string
	Owner types.UID
}

// Slots counts migrations against KubeVirt's limits.
type Slots struct {
	// Cluster counts unfinished migrations, and marked VMIs without one, everywhere.
	Cluster int
	// Node counts those that leave this node.
	Node int
	// Waiting counts, for each other draining node that has any, the VMs that wait for a
	// slot of the cluster; see Plan.Waiting.
	Waiting []int
}

// Volume is a Longhorn volume and its replicas.
type Volume struct {
	Name string
	// Namespace and Claim are the PersistentVolumeClaim that it backs.
	Namespace, Claim string
	// Users are the workloads that use it now, as Longhorn sees it, without VMIs
	// that no longer exist.
	Users []VolumeUser
	// Healthy are the nodes that hold a healthy replica, whatever state they are in
	// themselves: the plan adds that.
	Healthy []string
}

// VolumeUser is a workload that uses a volume.
type VolumeUser struct {
	// Kind is VirtualMachineInstance, Deployment, StatefulSet, Pod and so on.
	Kind, Namespace, Name string
}

// KubeVirt is the part of KubeVirt's configuration that decides.
type KubeVirt struct {
	// EvictionStrategy is the cluster's default; nil when unset.
	EvictionStrategy *kubevirtv1.EvictionStrategy
	// MigrationsPerCluster and MigrationsPerNode are the limits; KubeVirt's own
	// defaults are 5 and 2.
	MigrationsPerCluster, MigrationsPerNode int
	// DrainTaint is the key of the taint by which others ask for evacuation.
	DrainTaint string
}

// Config holds the settings that decide.
type Config struct {
	// Words are the vocabulary on nodes; maintenance.Plain where it is not set.
	Words maintenance.Vocabulary
	// DrainTimeout is the limit of a drain; 0 means none.
	DrainTimeout time.Duration
	// HonorStrategy lets forced VMs keep their restart strategy
	// (--force-policy=honor-strategy).
	HonorStrategy bool
	// PossibleIsConsent reads a template's LiveMigrateIfPossible as consent to an
	// interruption. Off where Harvester's CRDs exist, since Harvester writes that
	// value into every VM it makes.
	PossibleIsConsent bool
}
