package alerts

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	metricsFile   = "../../docs/metrics.md"
	dashboardFile = "../../charts/drydock/files/dashboard.json"
)

// panel is what this test reads of a Grafana panel.
type panel struct {
	Title   string `json:"title"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
	Panels []panel `json:"panels"`
}

// queries are those of alerts and dashboard, by where they stand.
func queries(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name, rule := range shipped(t) {
		found["alert "+name] = rule.Expr
	}
	raw, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard panel
	if err := json.Unmarshal(raw, &dashboard); err != nil {
		t.Fatalf("%s: %v", dashboardFile, err)
	}
	var walk func(panels []panel)
	walk = func(panels []panel) {
		for _, p := range panels {
			for _, target := range p.Targets {
				found["panel "+p.Title+": "+target.Expr] = strings.NewReplacer("$__rate_interval", "5m", "$node", "w1").Replace(target.Expr)
			}
			walk(p.Panels)
		}
	}
	walk(dashboard.Panels)
	if len(found) < 20 {
		t.Fatalf("only %d queries were found", len(found))
	}
	return found
}

var (
	row  = regexp.MustCompile("(?m)^\\| (`[^|]*) \\| ([a-z]*) \\| ([^|]*)\\|")
	code = regexp.MustCompile("`([a-z_]+)`")
)

// documented are the metrics of docs/metrics.md with their labels, which a test beside
// the metrics holds to what the program exposes. A histogram has three.
func documented(t *testing.T) map[string]map[string]bool {
	t.Helper()
	page, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]bool{}
	for _, cells := range row.FindAllStringSubmatch(string(page), -1) {
		allowed := map[string]bool{model.MetricNameLabel: true, "namespace": true, "job": true, "pod": true}
		for _, label := range code.FindAllStringSubmatch(cells[3], -1) {
			allowed[label[1]] = true
		}
		for _, name := range code.FindAllStringSubmatch(cells[1], -1) {
			if cells[2] != "histogram" {
				found[name[1]] = allowed
				continue
			}
			withBucket := map[string]bool{"le": true}
			for label := range allowed {
				withBucket[label] = true
			}
			found[name[1]+"_count"], found[name[1]+"_sum"], found[name[1]+"_bucket"] = allowed, allowed, withBucket
		}
	}
	return found
}

func TestQueriesAskForWhatTheManagerHas(t *testing.T) {
	metrics := documented(t)
	for where, query := range queries(t) {
		expr, err := language.ParseExpr(query)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			allowed, ok := metrics[selector.Name]
			if !ok {
				t.Errorf("%s: there is no metric %s", where, selector.Name)
				return nil
			}
			for _, matcher := range selector.LabelMatchers {
				if !allowed[matcher.Name] {
					t.Errorf("%s: %s has no label %s", where, selector.Name, matcher.Name)
				}
			}
			return nil
		})
	}
}
