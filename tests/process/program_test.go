package process

import (
	"debug/elf"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/drydock-dev/drydock/tests/manager"
)

// ceiling is what the program may weigh. It has 40 MB; without the linker's leaving out
// what nobody calls it would have 70, see FLAGS in the Makefile.
const ceiling = 48_000_000

// The image is this one file.
func TestTheProgramNeedsNothingBesideItself(t *testing.T) {
	name, err := manager.Program()
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close() //nolint:errcheck // only read from
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
			t.Errorf("it is linked dynamically: there is a segment %s", segment.Type)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Size() > ceiling {
		t.Errorf("it has %d bytes, and may have %d: %v", info.Size(), ceiling, err)
	}
}

func TestItSaysWhichVersionItIs(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD").Run(); err != nil {
		t.Skipf("what was built is no commit: git rev-parse HEAD: %v", err)
	}
	output, err := manager.Run(t.Context(), "--version")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^drydock version \S+ \([0-9a-f]{40}\)\n$`).MatchString(output) {
		t.Errorf("it says %q, without version or commit", output)
	}
}
