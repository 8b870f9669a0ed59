package execute

import (
	"context"
	"encoding/json"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// LedgerName is the Lease that serialises admission over the cluster.
const LedgerName = "drydock-admission"

// Ledger serialises admission. A grant is written to one Lease by resourceVersion,
// after the decision and before the node shows it:
//
//  1. read the Lease, 2. read the nodes live, 3. decide, 4. write the grant with the
//     resourceVersion of step 1, 5. patch the node with the one of step 2.
//
// Of two deciders that read the same Lease only one writes its grant; the other
// decides again and then counts the first as engaged, whether its node shows it yet
// or not. Nobody holds a lock, so nothing expires, and a decider that stops for an
// hour after step 4 can do no harm: its grant counts until the node shows that it was
// admitted, refused or no longer asks, and each of these changes the node, which
// makes step 5 fail.
//
// A grant names the request by its id. One that was left by a manager that died before
// step 5 is thereby found again, and one about an earlier request of the same node is
// never taken for it.
type Ledger struct {
	leases coordinationclient.LeaseInterface
}

// Grant is an admission that was written down.
type Grant struct {
	UID types.UID `json:"uid"`
	ID  string    `json:"id"`
}

// NewLedger returns a Ledger in the namespace of the client.
func NewLedger(leases coordinationclient.LeaseInterface) *Ledger { return &Ledger{leases: leases} }

// Page is the ledger as it was read.
type Page struct {
	lease  *coordinationv1.Lease
	Grants map[string]Grant
}

// Read returns the grants by node name, and makes the Lease if there is none.
func (l *Ledger) Read(ctx context.Context) (*Page, error) {
	lease, err := l.leases.Get(ctx, LedgerName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = l.leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LedgerName}}, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("lease %s: %w", LedgerName, err)
	}
	page := &Page{lease: lease, Grants: map[string]Grant{}}
	if raw, ok := lease.Annotations[maintenance.AnnotationGrants]; ok {
		if err := json.Unmarshal([]byte(raw), &page.Grants); err != nil {
			return nil, fmt.Errorf("metadata.annotations[%s] of lease %s: %w", maintenance.AnnotationGrants, LedgerName, err)
		}
	}
	return page, nil
}

// Write stores the page's grants; a conflict means that somebody else decided since it
// was read.
func (l *Ledger) Write(ctx context.Context, page *Page) error {
	raw, err := json.Marshal(page.Grants)
	if err != nil {
		return fmt.Errorf("lease %s: %w", LedgerName, err)
	}
	lease := page.lease.DeepCopy()
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, maintenance.AnnotationGrants, string(raw))
	if _, err := l.leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("lease %s: %w", LedgerName, err)
	}
	return nil
}
