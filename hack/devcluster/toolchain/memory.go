package toolchain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// remembered returns the path that find returned for the same versions before, if it is
// still there, and otherwise asks it. The go command takes a second and a half of a
// processor to find out that it has a program, and a cluster has six of them.
//
// What is found depends on nothing but the module's files and the go command's settings:
// tools are packages of other modules, which do not change. A path that the go command
// has cleaned away is looked for again.
func (t Toolchain) remembered(ctx context.Context, module Module, what string, find func() (string, error)) (string, error) {
	note, err := t.note(ctx, module, what)
	if err != nil {
		return find() // Nothing to remember by is no reason to fail.
	}
	if path, err := os.ReadFile(note); err == nil {
		if _, err := os.Stat(string(path)); err == nil {
			return string(path), nil
		}
	}
	path, err := find()
	if err != nil {
		return "", err
	}
	_ = write(note, path) // The next boot looks again.
	return path, nil
}

// note names the file that remembers.
func (t Toolchain) note(ctx context.Context, module Module, what string) (string, error) {
	caches, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("folder of caches: %w", err)
	}
	settings, err := t.run(ctx, module, "env", "GOVERSION", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOFLAGS", "GOEXPERIMENT", "GOCACHE", "GOMODCACHE")
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, file := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(t.Source, string(module), file))
		if err != nil {
			return "", fmt.Errorf("versions of %s: %w", what, err)
		}
		fmt.Fprintf(hash, "%s %d\n%s", file, len(content), content)
	}
	fmt.Fprintf(hash, "%s\n%s", settings, what)
	return filepath.Join(caches, "drydock-devcluster", hex.EncodeToString(hash.Sum(nil))), nil
}

// write puts the content into place in one step, since several clusters may boot at once.
func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("remembering %s: %w", content, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "new-")
	if err != nil {
		return fmt.Errorf("remembering %s: %w", content, err)
	}
	_, err = strings.NewReader(content).WriteTo(file)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("remembering %s: %w", content, err)
	}
	return nil
}
