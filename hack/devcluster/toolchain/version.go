package toolchain

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// arguments make the go command build the tool, unless it has it, and print its path.
func (t Toolchain) arguments(tool Tool) ([]string, error) {
	if !tool.Versioned {
		return []string{"tool", "-n", tool.Path}, nil
	}
	// What go run has built is in the cache like what go tool has, but go tool takes no
	// linker flags. echo is what the program is "run" with.
	flags, err := t.stamp()
	return []string{"run", "-ldflags", flags, "-exec", "echo", "k8s.io/kubernetes/cmd/" + tool.Path}, err
}

var release = regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes v((\d+)\.(\d+)\.\S+)`)

// stamp are the linker flags that tell a program its version, as those of Kubernetes'
// own build do. Without them it is v0.0.0-master+$Format:%H$, which is no version.
func (t Toolchain) stamp() (string, error) {
	file := filepath.Join(t.Source, string(Kubernetes), "go.mod")
	mod, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return "", fmt.Errorf("finding the version of Kubernetes: %w", err)
	}
	found := release.FindSubmatch(mod)
	if found == nil {
		return "", fmt.Errorf("%s: requires no k8s.io/kubernetes", file)
	}
	const variables = "k8s.io/component-base/version."
	return fmt.Sprintf("-X %[1]sgitVersion=v%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s -X %[1]sgitTreeState=clean", variables, found[1], found[2], found[3]), nil
}
