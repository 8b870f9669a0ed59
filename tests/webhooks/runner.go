package webhooks

import (
	"context"
	"testing"

	"github.com/drydock-dev/drydock/tests/manager"
)

// Runner runs the tests of a package that share a manager, ends it, and takes the webhooks
// out of a cluster that outlives the tests: nobody would answer them.
type Runner struct {
	*testing.M
	Shared *manager.Shared
}

// Run runs the tests and returns the code to exit with.
func (r Runner) Run() int {
	code := r.M.Run()
	if c := r.Shared.End(); c != nil {
		_ = Clear(context.Background(), c)
	}
	return code
}
