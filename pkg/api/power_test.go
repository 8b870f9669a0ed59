package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

func TestPowerIsSwitchedWhereThatKillsNothing(t *testing.T) {
	completed := []func(*corev1.Node){
		annotated(maintenance.AnnotationNodeRecord, "{}"), annotated(maintenance.AnnotationStatus, maintenance.StatusCompleted),
		shows(maintenance.PhaseCompleted, corev1.ConditionTrue, ""),
	}
	for name, test := range map[string]struct {
		node     []func(*corev1.Node)
		managed  bool
		refusals [2]string
		code     int
		says     string
	}{
		"nobody manages it":        {completed, false, [2]string{}, http.StatusFailedDependency, ""},
		"it cannot be controlled":  {completed, true, [2]string{"not ready", "not ready"}, http.StatusConflict, "not ready"},
		"it runs VMs":              {nil, true, [2]string{}, http.StatusConflict, "is Ready and not in maintenance"},
		"an earlier one goes on":   {completed, true, [2]string{"", "no outcome yet"}, http.StatusConflict, "no outcome yet"},
		"a node in maintenance is": {completed, true, [2]string{}, http.StatusNoContent, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, h := newWorld(t, node("w1", test.node...))
			w.managed, w.refusals = test.managed, test.refusals
			got, body := ask(t, h, "editor", http.MethodPost, "/v1/harvester/nodes/w1?action=powerAction", `{"operation":"reboot"}`)
			if got.StatusCode != test.code || !strings.Contains(body, test.says) || (body == "") != (test.says == "") {
				t.Errorf("%d %s, want %d %s", got.StatusCode, body, test.code, test.says)
			}
			if want := test.code == http.StatusNoContent; want != slices.Equal(w.switched, []string{"reboot w1"}) || want == (len(w.switched) == 0) {
				t.Errorf("switched %q", w.switched)
			}
		})
	}
}
