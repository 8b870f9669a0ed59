// Package docs follows the documentation literally: every link leads somewhere, and every
// command in it is run, in the order in which a newcomer would meet it.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
)

func TestMain(m *testing.M) {
	code := cluster.Main(m)
	manager.Remove()
	os.Exit(code)
}

// root is the top of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// block is a fenced block of a page.
type block struct {
	// info is what stands behind the fence: the language, and a mark.
	info string
	// section is the heading that it is under.
	section string
	line    int
	text    string
}

// Blocks marked shell are run. Those marked beyond need something that no dev cluster has,
// and that mark is the only way not to be run; docs/README.md says so to readers.
const (
	shell  = "sh"
	beyond = "sh cluster"
)

// page is a document, taken apart.
type page struct {
	name     string
	headings []string
	blocks   []block
	// prose is each line outside of blocks, by its number.
	prose map[int]string
}

// read takes a document apart.
func read(t *testing.T, name string) page {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	p := page{name: name, prose: map[int]string{}}
	var open *block
	section, number := "", 0
	for line := range strings.Lines(string(content)) {
		number++
		info, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		heading, isHeading := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		switch {
		case fence && open == nil:
			open = &block{info: info, section: section, line: number + 1}
		case fence:
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.text += line
		case strings.HasPrefix(line, "#") && isHeading:
			section = strings.TrimSpace(heading)
			p.headings = append(p.headings, section)
			p.prose[number] = line
		default:
			p.prose[number] = line
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block is not closed", name, open.line)
	}
	return p
}

// commands are the blocks that are to be run, of these sections or, without any, of all.
func (p page) commands(sections ...string) []block {
	var found []block
	for _, b := range p.blocks {
		if b.info == shell && (len(sections) == 0 || slices.Contains(sections, b.section)) {
			found = append(found, b)
		}
	}
	return found
}

// script is blocks as one shell would be given them, which says where it is.
func (p page) script(blocks []block) string {
	var b strings.Builder
	for _, block := range blocks {
		fmt.Fprintf(&b, "echo '--- %s:%d'\n%s\n", p.name, block.line, block.text)
	}
	return b.String()
}

// documents are the pages for people who use Drydock. Those of hack/devcluster, a module of
// its own, are about what the tests there do.
func documents(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "charts/*/*.md", "deploy/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root(t), pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no documents %s: %v", pattern, err)
		}
		for _, file := range files {
			name, err := filepath.Rel(root(t), file)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, filepath.ToSlash(name))
		}
	}
	return found
}
