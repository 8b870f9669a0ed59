package maintenance

// Node annotations.
const (
	// AnnotationRequested asks for maintenance; see [Vocabulary.Request] for its values.
	// A user, the API or a front-end writes it, Drydock consumes it.
	AnnotationRequested = "harvesterhci.io/drain-requested"
	// AnnotationForced adds force to a request, or to a drain under way.
	AnnotationForced = "harvesterhci.io/drain-forced"
	// AnnotationStatus is the short state that Harvester's front-end shows. Drydock
	// writes it; a user removes it to leave maintenance.
	AnnotationStatus = "harvesterhci.io/maintain-status"
	// AnnotationNodeRecord holds a [NodeRecord]: what cannot be observed again.
	AnnotationNodeRecord = "drydock.dev/maintenance"
	// AnnotationRequestID tells one request from the next. It is set with the condition
	// Validating and becomes the id of the maintenance, so that a decision about it is
	// found again after a crash and never taken for one about another request.
	AnnotationRequestID = "drydock.dev/request"
	// AnnotationProgress is a copy of the plan and its progress for clients, see
	// plan.Report. It is on the node, and written in the same patch as the condition,
	// so that whoever watches nodes has both at once and at no further request.
	AnnotationProgress = "drydock.dev/progress"
	// AnnotationRequestedBy names who asked. The API, or else the Node webhook, writes
	// it with the request; it is consumed into the record.
	AnnotationRequestedBy = "drydock.dev/requested-by"
	// AnnotationClear dismisses the condition of a request that was refused. Drydock
	// consumes it.
	AnnotationClear = "drydock.dev/clear-maintenance"
	// AnnotationCPUManager asks Harvester's own controller to change the policy of
	// kubelet's CPU manager, and says how far that is. It has no part in maintenance.
	AnnotationCPUManager = "harvesterhci.io/cpu-manager-update-status"
	// AnnotationRenamedRequested and AnnotationRenamedForced are what a request is
	// renamed to beside Harvester's own controllers, see [Takeover].
	AnnotationRenamedRequested = "drydock.dev/drain-requested"
	AnnotationRenamedForced    = "drydock.dev/drain-forced"
)

// Values of AnnotationStatus.
const (
	StatusRunning   = "running"
	StatusCompleted = "completed"
	// StatusDraining stands for StatusRunning beside Harvester's own controllers, which
	// take "running" for theirs.
	StatusDraining = "draining"
)

// RequestAnnotations are all that a request consists of, in every vocabulary.
var RequestAnnotations = []string{
	AnnotationRequested, AnnotationForced, AnnotationRenamedRequested, AnnotationRenamedForced, AnnotationRequestedBy, AnnotationClear,
}

// VirtualMachine labels and annotations.
const (
	// LabelStrategy is the owner's choice; see [ParseStrategy] for its values.
	LabelStrategy = "harvesterhci.io/maintain-mode-strategy"
	// AnnotationMarker names the node whose maintenance a VM waits for.
	AnnotationMarker = "harvesterhci.io/maintain-mode-strategy-node-name"
	// AnnotationRunStrategy keeps the run strategy to come back to. It is shared
	// with Harvester, whose mutator reads it when a VM goes from Halted to running,
	// and stays on the VM after the restart.
	AnnotationRunStrategy = "harvesterhci.io/vmRunStrategy"
	// AnnotationVMRecord holds a [VMRecord]. Only a marker with a record of
	// Drydock's own starts anything.
	AnnotationVMRecord = "drydock.dev/maintenance"
)

// AnnotationGrants is on the Lease that serialises admission and holds the grants by
// node name.
const AnnotationGrants = "drydock.dev/granted"

// LabelOwnMigration is carried by migrations that Drydock created itself; its
// value is the id of the maintenance.
const LabelOwnMigration = "drydock.dev/maintenance-id"

// DefaultDrainTaint is the node taint by which other tools ask KubeVirt to
// evacuate a node, unless the KubeVirt resource names another. Drydock never sets
// it, but removes it on leaving: KubeVirt refuses to cancel an evacuation while it
// stands.
const DefaultDrainTaint = "kubevirt.io/drain"

// Labels by which a launcher pod names its virtual machine, a fallback for when
// the owning VMI cannot be found. In order of trust.
var launcherNameLabels = []string{"harvesterhci.io/vmName", "vm.kubevirt.io/name", "kubevirt.io/vmName"}

// LauncherVMName returns the name of the virtual machine that a launcher pod's
// labels claim, or "". It is only a fallback: the owning VMI is the truth.
func LauncherVMName(labels map[string]string) string {
	for _, key := range launcherNameLabels {
		if name := labels[key]; name != "" {
			return name
		}
	}
	return ""
}
