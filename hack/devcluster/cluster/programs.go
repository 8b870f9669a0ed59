package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/drydock-dev/drydock/hack/devcluster/toolchain"
)

// patience is how long getting a program may take before it is worth a remark:
// from the cache it takes half a second, to build it up to minutes.
const patience = 3 * time.Second

// programs are being found or built, in the order in which they are needed, while
// those that are there already boot.
type programs map[toolchain.Tool]*program

type program struct {
	done chan struct{}
	path string
	err  error
}

// findPrograms starts to get all tools, two at a time: the go command itself
// builds in parallel, and more of them only take memory.
func findPrograms(ctx context.Context, tools toolchain.Toolchain, report *Report) programs {
	found := programs{}
	queue := make(chan toolchain.Tool, len(toolchain.All()))
	for _, tool := range toolchain.All() {
		found[tool] = &program{done: make(chan struct{})}
		queue <- tool
	}
	close(queue)
	for range 2 {
		go func() {
			for tool := range queue {
				p := found[tool]
				p.path, p.err = findProgram(ctx, tools, tool, report)
				close(p.done)
			}
		}()
	}
	return found
}

func findProgram(ctx context.Context, tools toolchain.Toolchain, tool toolchain.Tool, report *Report) (string, error) {
	begin := time.Now()
	remark := time.AfterFunc(patience, func() { report.Line("building %s, which takes a while the first time", tool.Path) })
	defer remark.Stop()
	path, err := tools.Program(ctx, tool)
	if took := time.Since(begin); err == nil && took > patience {
		report.Line("built %s in %.1fs", tool.Path, took.Seconds())
	}
	return path, err
}

// get waits for a program.
func (p programs) get(ctx context.Context, tool toolchain.Tool) (string, error) {
	select {
	case <-p[tool].done:
		return p[tool].path, p[tool].err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Build gets all programs and kubectl, and nothing more.
func Build(ctx context.Context, tools toolchain.Toolchain, report *Report) error {
	for _, tool := range append(toolchain.All(), toolchain.Kubectl) {
		path, err := findProgram(ctx, tools, tool, report)
		if err != nil {
			return fmt.Errorf("devcluster build: %w", err)
		}
		report.Line("%s: %s", tool.Path, path)
	}
	return nil
}
