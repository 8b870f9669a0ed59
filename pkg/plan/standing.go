package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Standing is where a maintenance stands for the VMs that it stopped.
type Standing string

const (
	// Lasts: the node is not empty yet. They stay off.
	Lasts Standing = "Lasts"
	// Emptied: the node may be rebooted. Those that may run elsewhere are started.
	Emptied Standing = "Emptied"
	// Over: the node is not in that maintenance any more. All are started.
	Over Standing = "Over"
)

// StandingOf tells where the maintenance of that id stands; the node is nil when it is
// gone. While a record cannot be read nobody knows: it lasts.
func StandingOf(node *corev1.Node, id string) (Standing, error) {
	if node == nil {
		return Over, nil
	}
	record, err := maintenance.NodeRecordOf(node)
	switch {
	case err != nil:
		return Lasts, err
	case record == nil || record.ID != id:
		return Over, nil
	case maintenance.PhaseOf(node) == maintenance.PhaseCompleted:
		return Emptied, nil
	}
	return Lasts, nil
}
