package manager

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what the process has of the machine.
type Usage struct {
	// Resident is its memory in bytes, Peak the most that it has had.
	Resident, Peak int64
	// Processor is the time that it has had of all processors so far. It says more than
	// latencies do on a machine that does other things.
	Processor time.Duration
}

// Usage asks the kernel.
func (m *Manager) Usage() (Usage, error) {
	var u Usage
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.PID()))
	if err != nil {
		return u, fmt.Errorf("memory of the manager: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "VmRSS:" && fields[0] != "VmHWM:" {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return u, fmt.Errorf("memory of the manager: %w", err)
		}
		if fields[0] == "VmRSS:" {
			u.Resident = kib << 10
		} else {
			u.Peak = kib << 10
		}
	}
	if u.Processor, err = processorTime(m.PID()); err == nil && u.Resident == 0 {
		err = errors.New("the manager's status has no VmRSS")
	}
	return u, err
}

// ticks are the kernel's unit of time, the same on every architecture.
const ticks = time.Second / 100

func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("processor time of the manager: %w", err)
	}
	// The name, which may hold blanks, ends with a parenthesis; the times are the 12th and
	// 13th fields behind it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("processor time of the manager: %q", stat)
	}
	var sum time.Duration
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time of the manager: %w", err)
		}
		sum += time.Duration(n) * ticks
	}
	return sum, nil
}
