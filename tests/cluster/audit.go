package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// auditedGroup makes the apiserver log its members' requests, see
// hack/devcluster/README.md.
const auditedGroup = "sim.drydock.dev:audited"

// issue runs `devcluster kubeconfig`.
func (p *process) issue(dir, user string, groups []string, file string) error {
	p.issuing.Lock()
	defer p.issuing.Unlock()
	program, err := p.program()
	if err != nil {
		return err
	}
	args := []string{"kubeconfig", "--state-dir", dir, "--user", user, "--output", file}
	for _, group := range groups {
		args = append(args, "--group", group)
	}
	if output, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("issuing a kubeconfig for %s: %w\n%s", user, err, output)
	}
	return nil
}

// Request is one request that was answered.
type Request struct {
	At              time.Time
	Verb            string
	Group, Resource string
	Subresource     string
	Namespace, Name string
	// Code is the answer's status: 200, 404, 429…
	Code int
	// URI has the query, which tells a watch from a list.
	URI string
}

func (r Request) String() string {
	what := r.Resource
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	return fmt.Sprintf("%s %s %s %d", r.Verb, what, strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"), r.Code)
}

// Audit is a mark in the audit log.
type Audit struct {
	file   string
	user   string
	offset int64
}

// Audit remembers this moment: Requests lists what the user has done since. Users
// of Kubeconfig are in the log, and those of `devcluster up --audit-user`.
func (c *Cluster) Audit(t testing.TB, user string) *Audit {
	t.Helper()
	if _, yes := substitute(user); yes {
		user = Account
	}
	a := &Audit{file: filepath.Join(c.StateDir, "audit.log"), user: user}
	if stat, err := os.Stat(a.file); err == nil {
		a.offset = stat.Size()
	} else if !os.IsNotExist(err) {
		t.Fatalf("looking at the audit log: %v", err)
	}
	return a
}

// auditLine is what this package reads of an audit.k8s.io/v1 Event.
type auditLine struct {
	AuditID string `json:"auditID"`
	Stage   string `json:"stage"`
	Verb    string `json:"verb"`
	URI     string `json:"requestURI"`
	User    struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		APIGroup, Resource, Subresource, Namespace, Name string
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	At time.Time `json:"requestReceivedTimestamp"`
}

// Requests lists the user's requests since the mark, in the order in which they
// were answered. The apiserver writes a request's line before its answer, so all
// that the user has an answer to are there. A watch counts when it starts.
func (a *Audit) Requests(t testing.TB) []Request {
	t.Helper()
	file, err := os.Open(a.file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	defer file.Close() //nolint:errcheck // read only
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		t.Fatalf("reading the audit log: %v", err)
	}
	var requests []Request
	seen := map[string]bool{}
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written
		}
		var event auditLine
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("reading the audit log: %v: %s", err, line)
		}
		// A watch has a line when it starts and one when it ends.
		if event.User.Username != a.user || seen[event.AuditID] {
			continue
		}
		seen[event.AuditID] = true
		requests = append(requests, Request{
			At: event.At, Verb: event.Verb, Group: event.Object.APIGroup, Resource: event.Object.Resource,
			Subresource: event.Object.Subresource, Namespace: event.Object.Namespace, Name: event.Object.Name,
			Code: event.Response.Code, URI: event.URI,
		})
	}
	return requests
}
