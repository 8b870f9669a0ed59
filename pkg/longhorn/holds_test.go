package longhorn

import (
	"testing"

	longhornv1 "github.com/longhorn/longhorn-manager/k8s/pkg/apis/longhorn/v1beta2"
)

// Who must do something, or that nobody must, is what the operator wants to know.
func TestWhyAVolumeIsAttached(t *testing.T) {
	ticket := func(by longhornv1.AttacherType, node string) *longhornv1.AttachmentTicket {
		return &longhornv1.AttachmentTicket{Type: by, NodeID: node}
	}
	for name, c := range map[string]struct {
		tickets map[string]*longhornv1.AttachmentTicket
		want    string
	}{
		"a backup":               {map[string]*longhornv1.AttachmentTicket{"a": ticket(longhornv1.AttacherTypeBackupController, "w1"), "b": ticket(longhornv1.AttacherTypeLonghornAPI, "w1")}, "a backup of volume v is running"},
		"a backup elsewhere":     {map[string]*longhornv1.AttachmentTicket{"a": ticket(longhornv1.AttacherTypeBackupController, "w2"), "b": ticket(longhornv1.AttacherTypeLonghornAPI, "w1")}, "volume v is attached to the node by hand"},
		"a workload":             {map[string]*longhornv1.AttachmentTicket{"a": ticket(longhornv1.AttacherTypeCSIAttacher, "w1"), "b": ticket(longhornv1.AttacherTypeSnapshotController, "w1")}, "volume v is attached to the node by csi-attacher and snapshot-controller"},
		"nobody's ticket":        {nil, "volume v is attached to the node"},
		"a ticket without value": {map[string]*longhornv1.AttachmentTicket{"a": nil}, "volume v is attached to the node"},
	} {
		attachment := &longhornv1.VolumeAttachment{}
		attachment.Spec.AttachmentTickets = c.tickets
		if got := whyAttached("v", attachment, "w1"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got, want := whyAttached("v", nil, "w1"), "volume v is attached to the node"; got != want {
		t.Errorf("without an attachment: %q, want %q", got, want)
	}
}
