package manager

import (
	"context"
	"os/exec"
)

// Run runs the program to its end, as its user would, and returns what it wrote.
func Run(ctx context.Context, args ...string) (string, error) {
	binary, err := build()
	if err != nil {
		return "", err
	}
	output, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	return string(output), err
}
