package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Memory is what the API server cannot tell after a restart of the simulator:
// which hosts it knew, which pods died in a power loss (their objects still say
// Running, as they do on metal, and they must not come back alive), and how
// many migrations of a VMI were made to fail.
type memory struct {
	path string

	mu      sync.Mutex
	content memoryContent
}

type memoryContent struct {
	Hosts    map[types.UID]*hostMemory `json:"hosts"`
	Failures map[types.UID]int         `json:"migrationFailures"`
}

type hostMemory struct {
	Name string             `json:"name"`
	Off  bool               `json:"off,omitempty"`
	Lost map[types.UID]bool `json:"lost,omitempty"`
}

func openMemory(dir string) (*memory, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the simulator's state directory: %w", err)
	}
	m := &memory{path: filepath.Join(dir, "simulator.json")}
	data, err := os.ReadFile(m.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read the simulator's memory: %w", err)
	default:
		if err := json.Unmarshal(data, &m.content); err != nil {
			return nil, fmt.Errorf("read the simulator's memory %s: %w", m.path, err)
		}
	}
	if m.content.Hosts == nil {
		m.content.Hosts = map[types.UID]*hostMemory{}
	}
	if m.content.Failures == nil {
		m.content.Failures = map[types.UID]int{}
	}
	return m, nil
}

// change runs edit on the content and writes the file. It is called on events
// that are rare: a new host, a power switch, a failed migration.
func (m *memory) change(edit func(*memoryContent)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	edit(&m.content)
	data, err := json.Marshal(&m.content)
	if err != nil {
		return fmt.Errorf("encode the simulator's memory: %w", err)
	}
	// A file that is only half written would make the next start fail.
	if err := os.WriteFile(m.path+".new", data, 0o644); err != nil {
		return fmt.Errorf("write the simulator's memory: %w", err)
	}
	if err := os.Rename(m.path+".new", m.path); err != nil {
		return fmt.Errorf("write the simulator's memory: %w", err)
	}
	return nil
}

func (m *memory) failures(vmi types.UID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.content.Failures[vmi]
}

func (m *memory) forgetFailures(vmi types.UID) error {
	if m.failures(vmi) == 0 {
		return nil
	}
	return m.change(func(content *memoryContent) { delete(content.Failures, vmi) })
}
