package docs

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Links between documents, and to files, lead to something that is there, and those with an
// anchor to a heading.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	checked := 0
	names := append(documents(t), "hack/devcluster/README.md", "hack/devcluster/simulator/README.md")
	for _, name := range names {
		for number, line := range read(t, name).prose {
			for _, found := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(found[1], "://") || strings.HasPrefix(found[1], "mailto:") {
					continue
				}
				checked++
				if problem := follow(t, name, found[1]); problem != "" {
					t.Errorf("%s:%d: link to %s: %s", name, number, found[1], problem)
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d links were found: that is not all of them", checked)
	}
	t.Logf("%d links", checked)
}

// A decision that nothing leads to is made a second time.
func TestEveryDecisionIsListed(t *testing.T) {
	decisions, err := filepath.Glob(filepath.Join(root(t), "docs", "adr", "*.md"))
	if err != nil || len(decisions) < 10 {
		t.Fatalf("%d decisions (%v): that is not all of them", len(decisions), err)
	}
	list := strings.Join(slices.Collect(maps.Values(read(t, "docs/architecture.md").prose)), "")
	for _, name := range decisions {
		if !strings.Contains(list, "(adr/"+filepath.Base(name)+")") {
			t.Errorf("docs/architecture.md does not list %s", filepath.Base(name))
		}
	}
}

// follow returns what is wrong with a link of a document, "" when nothing is.
func follow(t *testing.T, from, to string) string {
	t.Helper()
	target, anchor, hasAnchor := strings.Cut(to, "#")
	file := from
	if target != "" {
		file = path.Join(path.Dir(from), target)
	}
	if strings.HasPrefix(file, "../") {
		return "it leads out of the repository"
	}
	if _, err := os.Stat(filepath.Join(root(t), file)); err != nil {
		return "there is no " + file
	}
	if !hasAnchor {
		return ""
	}
	headings := read(t, file).headings
	if !slices.ContainsFunc(headings, func(heading string) bool { return anchorOf(heading) == anchor }) {
		return file + " has no such heading"
	}
	return ""
}

// anchorOf is the anchor that Git forges make of a heading: lower case, blanks as hyphens,
// and no punctuation.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// Who looks for something finds every room of the house in the README.
func TestTheREADMENamesEveryRoom(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root(t), readme))
	if err != nil {
		t.Fatal(err)
	}
	for _, wing := range []string{"cmd", "pkg", "hack", "charts", "tests"} {
		rooms, err := os.ReadDir(filepath.Join(root(t), wing))
		if err != nil || len(rooms) == 0 {
			t.Fatalf("%s has no rooms: %v", wing, err)
		}
		for _, room := range rooms {
			if name := path.Join(wing, room.Name()) + "/"; room.IsDir() && !strings.Contains(string(content), name) {
				t.Errorf("%s: \"Where things are\" does not name %s", readme, name)
			}
		}
	}
}
