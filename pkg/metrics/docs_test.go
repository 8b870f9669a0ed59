package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

var (
	documented = regexp.MustCompile("(?m)^\\| `(drydock_[a-z_]+)` \\| ([a-z]+) \\| ([^|]*)\\|")
	described  = regexp.MustCompile(`fqName: "(drydock_[a-z_]+)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	word       = regexp.MustCompile(`[a-z_]+`)
)

// docs/metrics.md is what dashboards and alerts are written and tested against.
func TestTheDocumentationHasEveryMetricAndNoOther(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	promised := map[string]string{}
	for _, row := range documented.FindAllStringSubmatch(string(page), -1) {
		promised[row[1]] = labelsOf(strings.ReplaceAll(row[3], "`", ""))
	}
	exposed := map[string]string{}
	ch := make(chan *prometheus.Desc, 200)
	m, _ := at(noon)
	m.registry.Describe(ch)
	close(ch)
	for desc := range ch {
		if found := described.FindStringSubmatch(desc.String()); found != nil {
			constant, _, _ := strings.Cut(found[2], "=")
			exposed[found[1]] = labelsOf(constant + " " + found[3])
		}
	}
	if len(exposed) < 20 {
		t.Fatalf("only %d metrics were found", len(exposed))
	}
	for name, labels := range exposed {
		if got, ok := promised[name]; !ok || got != labels {
			t.Errorf("%s has the labels %q; docs/metrics.md says %q", name, labels, got)
		}
	}
	for name := range promised {
		if _, ok := exposed[name]; !ok {
			t.Errorf("docs/metrics.md has %s, and the program has not", name)
		}
	}
}

func labelsOf(text string) string {
	labels := word.FindAllString(text, -1)
	slices.Sort(labels)
	return strings.Join(labels, ",")
}

// Prometheus' own rules for names, units and help.
func TestNamesFollowTheConventions(t *testing.T) {
	m, _ := at(noon)
	for _, vector := range []*prometheus.CounterVec{m.requests, m.refused, m.evictions, m.handled, m.clientRequests, m.sync} {
		vector.WithLabelValues(values(t, vector)...).Inc()
	}
	for _, vector := range []*prometheus.HistogramVec{m.drains, m.phases, m.migrations, m.stops, m.clientLatency, m.webhook} {
		vector.WithLabelValues(values(t, vector)...).Observe(1)
	}
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		if strings.HasPrefix(problem.Metric, "drydock_") {
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
	}
}

// values are as many as a vector has labels.
func values(t *testing.T, vector prometheus.Collector) []string {
	t.Helper()
	ch := make(chan *prometheus.Desc, 1)
	vector.Describe(ch)
	found := described.FindStringSubmatch((<-ch).String())
	if found == nil {
		t.Fatal("a vector that does not describe itself")
	}
	return word.FindAllString(found[3], -1)
}
