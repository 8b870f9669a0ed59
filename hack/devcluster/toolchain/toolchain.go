// Package toolchain gets the control plane's programs from the Go toolchain: each
// is a tool dependency of one of two modules, built from source into the Go cache.
package toolchain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Module is one of the two modules below Source.
type Module string

// KubeVirt's line of k8s.io differs from that of the control plane, so they
// cannot be built from one module.
const (
	KubeVirt   Module = "."
	Kubernetes Module = "kubernetes"
)

// Tool is a program and where it comes from.
type Tool struct {
	Module Module
	// Path is the package, or the last element of it where that is unambiguous.
	Path string
	// Versioned says that others read which version of Kubernetes the program is.
	Versioned bool
}

// The programs of a cluster, and kubectl for people. etcd's package is called
// "server", hence its full path.
var (
	Etcd              = Tool{Module: Kubernetes, Path: "go.etcd.io/etcd/server/v3"}
	APIServer         = Tool{Module: Kubernetes, Path: "kube-apiserver", Versioned: true}
	ControllerManager = Tool{Module: Kubernetes, Path: "kube-controller-manager"}
	Scheduler         = Tool{Module: Kubernetes, Path: "kube-scheduler"}
	Kubectl           = Tool{Module: Kubernetes, Path: "kubectl"}
	VirtAPI           = Tool{Module: KubeVirt, Path: "virt-api"}
	VirtController    = Tool{Module: KubeVirt, Path: "virt-controller"}
)

// All lists the programs in the order in which a booting cluster needs them.
func All() []Tool {
	return []Tool{Etcd, APIServer, ControllerManager, Scheduler, VirtController, VirtAPI}
}

// Toolchain runs the go command in the source tree.
type Toolchain struct {
	// Source is the folder hack/devcluster.
	Source string
}

// Locate finds the folder hack/devcluster upward from dir.
func Locate(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolving the working directory: %w", err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		for _, candidate := range []string{at, filepath.Join(at, "hack", "devcluster")} {
			if isSource(candidate) {
				return candidate, nil
			}
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("hack/devcluster was found neither in %s nor above it: name it with --source", dir)
		}
	}
}

// isSource recognises the folder by the module of the Kubernetes programs in it.
func isSource(dir string) bool {
	mod, err := os.ReadFile(filepath.Join(dir, "kubernetes", "go.mod"))
	return err == nil && bytes.Contains(mod, []byte("module github.com/drydock-dev/drydock/hack/devcluster/kubernetes\n"))
}

// Program builds the tool if the Go cache does not hold it, and returns its path.
func (t Toolchain) Program(ctx context.Context, tool Tool) (string, error) {
	args, err := t.arguments(tool)
	if err != nil {
		return "", err
	}
	return t.remembered(ctx, tool.Module, strings.Join(args, " "), func() (string, error) { return t.build(ctx, tool, args) })
}

func (t Toolchain) build(ctx context.Context, tool Tool, args []string) (string, error) {
	path, err := t.find(ctx, tool, args)
	if err == nil && tool.Versioned {
		if _, gone := os.Stat(path); gone != nil {
			// When it has built, go run names the copy in its working directory.
			path, err = t.find(ctx, tool, args)
		}
	}
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the program %s is missing after its build: %w", tool.Path, err)
	}
	return path, nil
}

func (t Toolchain) find(ctx context.Context, tool Tool, args []string) (string, error) {
	out, err := t.run(ctx, tool.Module, args...)
	if err != nil {
		return "", fmt.Errorf("building %s: %w", tool.Path, err)
	}
	return strings.TrimSpace(out), nil
}

// ModuleDir returns the folder of a dependency's source, downloading it if needed.
func (t Toolchain) ModuleDir(ctx context.Context, module Module, path string) (string, error) {
	return t.remembered(ctx, module, "source of "+path, func() (string, error) { return t.download(ctx, module, path) })
}

func (t Toolchain) download(ctx context.Context, module Module, path string) (string, error) {
	out, err := t.run(ctx, module, "mod", "download", "-json", path)
	if err != nil {
		return "", fmt.Errorf("finding the source of %s: %w", path, err)
	}
	var found struct{ Dir, Error string }
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return "", fmt.Errorf("reading what go mod download says of %s: %w", path, err)
	}
	if found.Error != "" {
		return "", fmt.Errorf("downloading %s: %w", path, errors.New(found.Error))
	}
	return found.Dir, nil
}

func (t Toolchain) run(ctx context.Context, module Module, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(t.Source, string(module))
	// Without cgo nothing but Go is needed, and all programs share their packages
	// in the cache. A workspace above would override the modules' own replaces.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	// A build must not go on when this program is killed. The kernel looks at the
	// thread that forked, which therefore has to stay until the build has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", fmt.Errorf("the go command is needed: %w", err)
		}
		return "", fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), cmd.Dir, err, lastLines(stderr.String(), 20))
	}
	return stdout.String(), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
