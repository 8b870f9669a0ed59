package labelsync

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	kubevirtcontrollers "github.com/drydock-dev/drydock/pkg/generated/controllers/kubevirt.io/v1"
)

// Launchers finds the launcher pods of a VMI, by an index.
type Launchers interface {
	Launchers(namespace, vmi string) ([]*corev1.Pod, error)
}

// Patch sends a merge patch for one object.
type Patch func(ctx context.Context, namespace, name string, body []byte) error

// Controller copies labels. It is idle until Lead is called: every replica keeps its
// caches warm, but only the leader writes.
type Controller struct {
	Settings  Settings
	VMs       kubevirtcontrollers.VirtualMachineController
	VMIs      kubevirtcontrollers.VirtualMachineInstanceController
	Launchers Launchers
	// PatchVMI and PatchPod write.
	PatchVMI, PatchPod Patch
	Log                logrus.FieldLogger

	ctx     context.Context
	leading atomic.Bool
}

// Register adds the handlers. The context ends all requests.
func (c *Controller) Register(ctx context.Context) {
	c.ctx = ctx
	c.VMs.OnChange(ctx, "drydock-labels-to-vmi", c.onVM)
	c.VMIs.OnChange(ctx, "drydock-labels-to-pods", c.onVMI)
}

// Lead begins to write, with a look at everything.
func (c *Controller) Lead() error {
	c.leading.Store(true)
	vms, err := c.VMs.Cache().List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		return fmt.Errorf("VMs: %w", err)
	}
	for _, vm := range vms {
		c.VMs.EnqueueAfter(vm.Namespace, vm.Name, 0)
	}
	vmis, err := c.VMIs.Cache().List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		return fmt.Errorf("VMIs: %w", err)
	}
	for _, vmi := range vmis {
		c.VMIs.EnqueueAfter(vmi.Namespace, vmi.Name, 0)
	}
	return nil
}

// Rest stops writing until Lead is called again.
func (c *Controller) Rest() { c.leading.Store(false) }

const (
	// requestLimit bounds one request: an API server that does not answer must not hold
	// a worker.
	requestLimit = 30 * time.Second
	// conflictDelay is when an object that was changed by somebody else a moment ago is
	// looked at again: by then the cache has that change.
	conflictDelay = 200 * time.Millisecond
)

// write sends what differs. again is true when the object has changed since it was
// compared, and is to be compared anew: the uid and the resourceVersion make the API
// server say so.
func (c *Controller) write(send Patch, kind string, object metav1.Object, labels, annotations changes) (again bool, err error) {
	metadata := map[string]any{"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(), "labels": labels}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return false, fmt.Errorf("labels of %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
	}
	ctx, cancel := context.WithTimeout(c.ctx, requestLimit)
	defer cancel()
	err = send(ctx, object.GetNamespace(), object.GetName(), body)
	switch {
	case err == nil:
		c.Log.WithFields(logrus.Fields{"kind": kind, "namespace": object.GetNamespace(), "name": object.GetName(), "labels": labels}).Debug("labels copied")
		return false, nil
	case apierrors.IsConflict(err):
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	}
	return false, fmt.Errorf("labels of %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
}
