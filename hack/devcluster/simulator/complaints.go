package simulator

import (
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// Complaints tells the author of a scenario about values that are not
// understood: once per object and value, since a reconcile runs many times.
type complaints struct {
	log    *slog.Logger
	events record.EventRecorder

	mu   sync.Mutex
	made map[complaint]bool
}

type complaint struct {
	uid   types.UID
	about badValue
}

func newComplaints(log *slog.Logger, events record.EventRecorder) *complaints {
	return &complaints{log: log, events: events, made: map[complaint]bool{}}
}

func (c *complaints) about(object runtime.Object, uid types.UID, name string, bad []badValue) {
	for _, value := range bad {
		key := complaint{uid: uid, about: value}
		c.mu.Lock()
		known := c.made[key]
		c.made[key] = true
		c.mu.Unlock()
		if known {
			continue
		}
		c.log.Warn("annotation is not understood and ignored", "object", name, "annotation", value.annotation, "value", value.value, "allowed", value.allowed)
		c.events.Event(object, corev1.EventTypeWarning, "SimulatorAnnotation", value.Error())
	}
}
