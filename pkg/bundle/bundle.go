package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// Options say what a bundle is made of.
type Options struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	// Namespace is Drydock's own.
	Namespace string
	// Leases are the names of those there; WebhookConfiguration is that of both webhook
	// configurations.
	Leases               []string
	WebhookConfiguration string
	// LauncherSelector selects KubeVirt's launcher pods.
	LauncherSelector string
	// Since is how far back events and logs go; 0 for as far as there are any.
	Since time.Duration
	// Version is the program's.
	Version string
	Clock   clock.PassiveClock
}

// Report is how a bundle came out.
type Report struct {
	// Objects counts what was read.
	Objects int
	// Unread names what could not be, and why.
	Unread []string
}

// collector is a bundle under way.
type collector struct {
	Options
	archive *archive
	now     time.Time
	report  Report
	// engaged are the nodes in maintenance.
	engaged []string
}

var errNothing = errors.New("nothing could be read from the cluster")

// Write writes a bundle. It fails only when nothing at all could be read, or the archive
// cannot be written.
func Write(ctx context.Context, w io.Writer, o Options) (Report, error) {
	now := o.Clock.Now()
	c := &collector{Options: o, now: now, archive: newArchive(w, "drydock-bundle-"+now.UTC().Format("20060102-150405"), now)}
	for _, k := range kinds(&o) {
		if err := c.kind(ctx, &k); err != nil {
			return c.report, err
		}
	}
	if c.report.Objects == 0 {
		return c.report, fmt.Errorf("%w: %s", errNothing, strings.Join(c.report.Unread, "; "))
	}
	for _, step := range []func(context.Context) error{c.pods, c.events, c.logs, c.about} {
		if err := step(ctx); err != nil {
			return c.report, err
		}
	}
	return c.report, c.archive.close()
}

// unread notes what could not be read. Who reads it is nobody's business.
func (c *collector) unread(what string, err error) {
	why := withoutPeople(err.Error())
	switch {
	case apierrors.IsForbidden(err):
		why = "not allowed: " + why
	case apierrors.IsNotFound(err):
		why = "not there: " + why
	}
	c.report.Unread = append(c.report.Unread, what+": "+why)
}

// kind reads all objects of a kind into one file.
func (c *collector) kind(ctx context.Context, k *kind) error {
	var file bytes.Buffer
	var found []string
	err := c.each(ctx, k, metav1.ListOptions{LabelSelector: k.labels}, func(object *unstructured.Unstructured) error {
		if !k.wanted(object) {
			return nil
		}
		found = append(found, object.GetName())
		if k.Resource == "nodes" {
			if err := c.plan(object); err != nil {
				return err
			}
		}
		return c.put(&file, k, object)
	})
	name := k.file
	if name == "" {
		name = k.Resource
	}
	if err != nil {
		c.unread(k.GroupResource().String(), err)
		found = k.names // nobody knows
	}
	for _, missing := range k.missing(found) {
		c.report.Unread = append(c.report.Unread, k.GroupResource().String()+" "+missing+": not there")
	}
	if file.Len() == 0 {
		return nil
	}
	return c.archive.add("resources/"+name+".yaml", file.Bytes())
}

func (c *collector) put(file *bytes.Buffer, k *kind, object *unstructured.Unstructured) error {
	raw, err := yaml.Marshal(k.redact(object.Object))
	if err != nil {
		return fmt.Errorf("%s %s/%s: %w", k.Resource, object.GetNamespace(), object.GetName(), err)
	}
	c.report.Objects++
	file.WriteString("---\n")
	file.Write(raw)
	return nil
}

const (
	pageSize = 500
	// kindLimit bounds the reading of one kind: somebody waits for the bundle.
	kindLimit = 2 * time.Minute
)

// each reads the objects of a kind, a page at a time.
func (c *collector) each(ctx context.Context, k *kind, options metav1.ListOptions, do func(*unstructured.Unstructured) error) error {
	ctx, cancel := context.WithTimeout(ctx, kindLimit)
	defer cancel()
	var client dynamic.ResourceInterface = c.Dynamic.Resource(k.GroupVersionResource)
	if k.own {
		client = c.Dynamic.Resource(k.GroupVersionResource).Namespace(c.Namespace)
	}
	options.Limit = pageSize
	for {
		page, err := client.List(ctx, options)
		if err != nil {
			return err
		}
		for n := range page.Items {
			if err := do(&page.Items[n]); err != nil {
				return err
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// plan writes what a node in maintenance shows, in a form for people.
func (c *collector) plan(node *unstructured.Unstructured) error {
	found := node.GetAnnotations()
	record, engaged := found[maintenance.AnnotationNodeRecord]
	progress, told := found[maintenance.AnnotationProgress]
	if !engaged && !told {
		return nil
	}
	c.engaged = append(c.engaged, node.GetName())
	content := map[string]any{"node": node.GetName(), "status": found[maintenance.AnnotationStatus], "record": parsed(withoutRequester(record)), "progress": parsed(progress)}
	raw, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return fmt.Errorf("plan of node %s: %w", node.GetName(), err)
	}
	return c.archive.add("plans/"+node.GetName()+".json", append(raw, '\n'))
}

func parsed(text string) any {
	var content any
	if json.Unmarshal([]byte(text), &content) != nil {
		return text
	}
	return content
}
