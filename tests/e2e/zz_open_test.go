package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// finding: a VM that is due and cannot be started yet is listed by no event (and there
// is no metric).
func TestOpenAVMThatIsDueIsListedByAnEvent(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	slow := movable(c, ns, "slow", pool).Strategy("ShutdownAndRestartAfterDisable").Annotate("sim.drydock.dev/shutdown-seconds", "never")
	create(t, slow.Change(func(vm *virtv1.VirtualMachine) { grace := int64(600); vm.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace }))
	request(t, c, host)
	c.AwaitVM(t, ns, "slow", "stopped", hasMarker)
	leave(t, c, host)
	awaitOut(t, c, host)
	awaitEvent(t, c, "VirtualMachine", ns, "slow", "MaintenanceStartWaiting")
}

// finding: what is told once is remembered as told before it is told, so that a write
// that fails in between loses it for good.
func TestOpenAnUnknownStrategyIsToldAlsoWhenAWriteFails(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	create(t, movable(c, ns, "a", pool).Strategy("Nonsense"))
	release := holdBefore(t, c, host, maintenance.PhaseDraining)
	request(t, c, host)
	awaitPhase(t, c, host, maintenance.PhaseValidating)
	c.Eventually(t, "the manager has tried", func(context.Context) error {
		if !strings.Contains(shared.manager.Log(), `"error":"node `+host) && !strings.Contains(shared.manager.Log(), host+`\": `) && !strings.Contains(shared.manager.Log(), "refused by a test") {
			return errors.New("it has not")
		}
		return nil
	})
	release()
	awaitPhase(t, c, host, maintenance.PhaseCompleted)
	awaitEvent(t, c, "VirtualMachine", ns, "a", "MaintenanceStrategyUnknown")
}

// finding: asked again after an uncordon, Completed is not cordoned again.
func TestOpenAskingAgainAfterAnUncordonInMaintenanceCordons(t *testing.T) {
	t.Parallel()
	c := drydock(t)
	host := c.Pool(t, 2).Host(0)
	request(t, c, host)
	awaitPhase(t, c, host, maintenance.PhaseCompleted)
	uncordon(t, c, host)
	awaitMessage(t, c, host, "was uncordoned by somebody else")
	request(t, c, host)
	c.AwaitNode(t, host, "cordoned again", unschedulable)
}
