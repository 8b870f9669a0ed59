package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

const (
	// tailLines is how much of a log an error shows.
	tailLines = 12
	// tailBytes bounds what is read of a log for it: some grow to many megabytes.
	tailBytes = 64 << 10
)

// Tail returns the last lines of a file, indented, or a remark that there are none.
func Tail(file string, lines int) string {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Sprintf("  (the log cannot be read: %v)", err)
	}
	defer f.Close() //nolint:errcheck // read only
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return fmt.Sprintf("  (the log cannot be read: %v)", err)
		}
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return fmt.Sprintf("  (the log cannot be read: %v)", err)
	}
	content = bytes.TrimSpace(content)
	if len(content) == 0 {
		return "  (the log is empty)"
	}
	all := strings.Split(string(content), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}

// ResidentMiB returns a process's resident memory, and false if there is no such
// process. A zombie has none.
func ResidentMiB(pid int) (float64, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "VmRSS:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			return kib / 1024, err == nil
		}
	}
	return 0, false
}
