package metrics

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// bounded are the vectors whose series are there from the beginning.
func bounded(m *Metrics) map[string]prometheus.Collector {
	return map[string]prometheus.Collector{
		"requests": m.requests, "refused": m.refused, "handled": m.handled, "sync": m.sync,
		"drains": m.drains, "phases": m.phases, "migrations": m.migrations, "stops": m.stops,
	}
}

// A series that is born with its first event hides it from rate() and increase().
func TestSeriesThatAreKnownBeginAtZero(t *testing.T) {
	m, _ := at(noon)
	m.Webhook(http.NotFoundHandler(), "/a", "/b")
	vectors := bounded(m)
	vectors["webhook"] = m.webhook
	for name, want := range map[string][]string{
		"requests": {"/admitted", "/refused"},
		"refused":  {"/LastNode", "/Node", "/Quorum", "/Storage", "/Upgrade", "/VirtualMachines"},
		"handled": {
			"/deleted/Delete", "/moved/Move",
			"/started/StopRestartAfterDisable", "/started/StopRestartAfterEnable", "/started/StopStayOff",
			"/started_by_others/StopRestartAfterDisable", "/started_by_others/StopRestartAfterEnable", "/started_by_others/StopStayOff",
			"/stays_off/StopRestartAfterDisable", "/stays_off/StopRestartAfterEnable", "/stays_off/StopStayOff",
		},
		"sync": {
			"/Pod/conflict", "/Pod/failed", "/Pod/gone", "/Pod/written",
			"/VirtualMachineInstance/conflict", "/VirtualMachineInstance/failed", "/VirtualMachineInstance/gone", "/VirtualMachineInstance/written",
		},
		"drains":     {"/completed", "/left", "/timed_out", "/uncordoned"},
		"phases":     {"/Completed", "/Draining", "/Error", "/Evacuating", "/Validating"},
		"migrations": {"/Eviction/failed", "/Eviction/succeeded", "/Eviction/withdrawn", "/Migration/failed", "/Migration/succeeded", "/Migration/withdrawn"},
		"stops":      {"/AfterDisable", "/AfterEnable", "/Never"},
		"webhook":    {"//a/allowed", "//a/denied", "//a/error", "//b/allowed", "//b/denied", "//b/error", "/other/error"},
	} {
		found := series(t, vectors[name])
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
			t.Errorf("%s begin with the series %v, not %v", name, got, want)
		}
		for labels, metric := range found {
			if metric.GetCounter().GetValue() != 0 || metric.GetHistogram().GetSampleCount() != 0 {
				t.Errorf("%s: %s does not begin at 0", name, labels)
			}
		}
	}
}

// nothingNew checks that what was counted went to series that were there before.
func nothingNew(t *testing.T, m *Metrics) {
	t.Helper()
	fresh, _ := at(noon)
	before := bounded(fresh)
	for name, vector := range bounded(m) {
		if got, want := slices.Sorted(maps.Keys(series(t, vector))), slices.Sorted(maps.Keys(series(t, before[name]))); !slices.Equal(got, want) {
			t.Errorf("%s have the series %v, and began with %v", name, got, want)
		}
	}
}
