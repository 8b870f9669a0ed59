package longhorn

import (
	"fmt"
	"slices"
	"strings"

	longhornv1 "github.com/longhorn/longhorn-manager/k8s/pkg/apis/longhorn/v1beta2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// drainPolicy is the setting by which Longhorn decides whether the budget of an
// instance manager lets it go.
const drainPolicy = "node-drain-policy"

// handful is how many reasons are named before "and 12 more": a node may hold the only
// replicas of hundreds of volumes, and what is said stands in an annotation.
const handful = 5

// Holds says why Longhorn keeps an instance-manager pod from being evicted: the
// policy, and the volumes and replicas on its node that the policy is about. It is ""
// for any other pod. Longhorn itself shows nothing but a disruption budget at zero.
func (r *Reader) Holds(pod *corev1.Pod) (string, error) {
	if pod.Labels["longhorn.io/component"] != "instance-manager" {
		return "", nil
	}
	replicas, err := r.replicas.GetByIndex(replicaByNode, pod.Spec.NodeName)
	if err != nil {
		return "", fmt.Errorf("replicas on node %s: %w", pod.Spec.NodeName, err)
	}
	var reasons []string
	for _, replica := range replicas {
		volume, err := r.volumes.Get(replica.Namespace, replica.Spec.VolumeName)
		if err != nil {
			continue
		}
		v, err := r.volume(volume)
		if err != nil {
			return "", err
		}
		if len(v.Healthy) == 1 && v.Healthy[0] == pod.Spec.NodeName {
			reasons = append(reasons, fmt.Sprintf("replica %s is the last healthy one of volume %s", replica.Name, volume.Name))
		}
	}
	attached, err := r.attached(pod.Spec.NodeName)
	if err != nil {
		return "", err
	}
	reasons = append(reasons, attached...)
	slices.Sort(reasons)
	if more := len(reasons) - handful; more > 0 {
		reasons = append(reasons[:handful], fmt.Sprintf("and %d more", more))
	}
	policy, err := r.policy()
	if err != nil || len(reasons) == 0 {
		return "Longhorn's " + drainPolicy + " is " + policy, err
	}
	return fmt.Sprintf("Longhorn's %s is %s: %s", drainPolicy, policy, strings.Join(reasons, ", ")), nil
}

func (r *Reader) attached(node string) ([]string, error) {
	volumes, err := r.volumes.GetByIndex(volumeByNode, node)
	if err != nil {
		return nil, fmt.Errorf("volumes attached to node %s: %w", node, err)
	}
	var reasons []string
	for _, volume := range volumes {
		var attachment *longhornv1.VolumeAttachment
		if r.attachments != nil {
			attachment, err = r.attachments.Get(volume.Namespace, volume.Name)
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("attachment of volume %s: %w", volume.Name, err)
			}
		}
		reasons = append(reasons, whyAttached(volume.Name, attachment, node))
	}
	return reasons, nil
}

// whyAttached says who keeps a volume attached to a node, from the tickets by which
// Longhorn's parts ask for it. A backup ends by itself, what a person has attached stays
// until a person detaches it.
func whyAttached(volume string, attachment *longhornv1.VolumeAttachment, node string) string {
	var others []string
	byHand := false
	if attachment != nil {
		for _, ticket := range attachment.Spec.AttachmentTickets {
			switch {
			case ticket == nil || ticket.NodeID != node:
			case ticket.Type == longhornv1.AttacherTypeBackupController:
				return "a backup of volume " + volume + " is running"
			case ticket.Type == longhornv1.AttacherTypeLonghornAPI:
				byHand = true
			case !slices.Contains(others, string(ticket.Type)):
				others = append(others, string(ticket.Type))
			}
		}
	}
	slices.Sort(others)
	switch {
	case len(others) > 0:
		return "volume " + volume + " is attached to the node by " + strings.Join(others, " and ")
	case byHand:
		return "volume " + volume + " is attached to the node by hand"
	}
	return "volume " + volume + " is attached to the node"
}

func (r *Reader) policy() (string, error) {
	settings, err := r.settings.List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		return "", fmt.Errorf("settings: %w", err)
	}
	for _, setting := range settings {
		if setting.Name == drainPolicy && setting.Value != "" {
			return setting.Value, nil
		}
	}
	return "unset", nil
}

func indexVolumeByNode(volume *longhornv1.Volume) ([]string, error) {
	if volume.Status.State != longhornv1.VolumeStateAttached || volume.Status.CurrentNodeID == "" {
		return nil, nil
	}
	return []string{volume.Status.CurrentNodeID}, nil
}
