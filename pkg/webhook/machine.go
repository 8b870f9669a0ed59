package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	apijson "k8s.io/apimachinery/pkg/util/json"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/plan"
)

// metadata is what decides of an object's metadata.
type metadata struct {
	UID               types.UID         `json:"uid"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	DeletionTimestamp *string           `json:"deletionTimestamp"`
}

// machine is what decides of a VirtualMachine. KubeVirt's own type is not used: it does
// not tell a map that is absent from one that is empty, which a patch must know, and a
// field that a newer KubeVirt writes in another form would be a reason to refuse what is
// none of Drydock's business.
type machine struct {
	metadata
	running     *bool
	runStrategy *kubevirtv1.VirtualMachineRunStrategy
	requests    []kubevirtv1.VirtualMachineStateChangeRequest
	template    *machineTemplate
	// spec is as it came, so that two versions can be compared as a whole.
	spec json.RawMessage
}

type machineTemplate struct {
	Metadata *struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		EvictionStrategy *kubevirtv1.EvictionStrategy `json:"evictionStrategy"`
	} `json:"spec"`
}

// machines decodes a VirtualMachine and, of an update, the old one.
func machines(request *admissionv1.AdmissionRequest) (old, now *machine, err error) {
	type outer struct {
		Metadata *metadata       `json:"metadata"`
		Spec     json.RawMessage `json:"spec"`
		Status   struct {
			StateChangeRequests []kubevirtv1.VirtualMachineStateChangeRequest `json:"stateChangeRequests"`
		} `json:"status"`
	}
	decode := func(o *outer, field string) (*machine, error) {
		if o == nil {
			return nil, nil
		}
		if o.Metadata == nil {
			return nil, fmt.Errorf("%w: %s.metadata is missing", errObject, field)
		}
		var spec struct {
			Running     *bool                                 `json:"running"`
			RunStrategy *kubevirtv1.VirtualMachineRunStrategy `json:"runStrategy"`
			Template    *machineTemplate                      `json:"template"`
		}
		if len(o.Spec) > 0 {
			if err := apijson.Unmarshal(o.Spec, &spec); err != nil {
				return nil, fmt.Errorf("%w: %s.spec: %w", errObject, field, err)
			}
		}
		return &machine{
			metadata: *o.Metadata, requests: o.Status.StateChangeRequests, spec: o.Spec,
			running: spec.Running, runStrategy: spec.RunStrategy, template: spec.Template,
		}, nil
	}
	oldOuter, nowOuter, err := objects[outer](request)
	if err != nil {
		return nil, nil, err
	}
	if old, err = decode(oldOuter, "request.oldObject"); err != nil {
		return nil, nil, err
	}
	now, err = decode(nowOuter, "request.object")
	return old, now, err
}

// halted reports that the VM's owner wants it off, in either of the two ways to say so.
func (m *machine) halted() bool {
	vm := kubevirtv1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{Running: m.running, RunStrategy: m.runStrategy}}
	return plan.RunStrategyOf(&vm) == kubevirtv1.RunStrategyHalted
}

// startedPaused reports that somebody asked for a paused start, which KubeVirt's
// controller serves in their place.
func (m *machine) startedPaused() bool { return plan.AsksForPausedStart(m.requests) }

// evictionStrategy is the template's, "" when it has none.
func (m *machine) evictionStrategy() kubevirtv1.EvictionStrategy {
	if m.template == nil || m.template.Spec.EvictionStrategy == nil {
		return ""
	}
	return *m.template.Spec.EvictionStrategy
}

// templateLabels are the template's; nil when it has none.
func (m *machine) templateLabels() map[string]string {
	if m.template == nil || m.template.Metadata == nil {
		return nil
	}
	return m.template.Metadata.Labels
}

func sameSpec(a, b *machine) bool { return bytes.Equal(a.spec, b.spec) }
