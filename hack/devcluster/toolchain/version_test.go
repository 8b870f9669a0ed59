package toolchain

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheVersionIsThatOfTheModule(t *testing.T) {
	tools := Toolchain{Source: ".."}
	flags, err := tools.stamp()
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`version\.gitVersion=v1\.\d+\.\d+ .*version\.gitMajor=1 .*version\.gitMinor=\d+ `).MatchString(flags) {
		t.Errorf("the linker is given %s", flags)
	}
	if _, err := (Toolchain{Source: filepath.Join(source(t), "hack", "devcluster")}).stamp(); err == nil || !strings.Contains(err.Error(), "requires no k8s.io/kubernetes") {
		t.Errorf("without a version: %v", err)
	}
}
