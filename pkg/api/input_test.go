package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestBadInputIsNamed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 61) + strings.Repeat("."+strings.Repeat("b", 61), 3) + ".ccc"
	for name, c := range map[string]struct {
		method, target, body string
		status               int
		says                 string
	}{
		"unknown node":               {"POST", nodes + "w9?action=cordon", "", 404, `node "w9" does not exist`},
		"unknown node, dots":         {"POST", nodes + "w9.example.org?action=cordon", "", 404, `"w9.example.org"`},
		"unknown node, 253 long":     {"POST", nodes + long + "?action=cordon", "", 404, "does not exist"},
		"a name that cannot be":      {"POST", nodes + "W_9?action=cordon", "", 404, `"W_9"`},
		"percent-encoded slash":      {"POST", nodes + "w1%2Fstatus?action=cordon", "", 404, `"w1/status"`},
		"percent-encoded name":       {"POST", nodes + "%77%31?action=maintenancePossible", "", 204, ""},
		"percent-encoded zero":       {"POST", nodes + "w1%00?action=cordon", "", 404, `"w1\x00"`},
		"no action":                  {"POST", nodes + "w1", "", 422, "action: is missing; there are maintenancePossible, "},
		"unknown action":             {"POST", nodes + "w1?action=reboot", "", 403, `action: "reboot" is unknown; there are`},
		"action in another case":     {"POST", nodes + "w1?action=Cordon", "", 403, `"Cordon" is unknown`},
		"action with GET":            {"GET", nodes + "w1?action=cordon", "", 405, "POST"},
		"PUT":                        {"PUT", nodes + "w1", "{}", 405, ""},
		"DELETE":                     {"DELETE", nodes + "w1", "", 405, ""},
		"POST to the list":           {"POST", "/v1/harvester/nodes", "{}", 405, ""},
		"broken JSON":                {"POST", nodes + "w1?action=enableMaintenanceMode", `{"force":`, 422, "body: is not a JSON object"},
		"JSON, but no object":        {"POST", nodes + "w1?action=cordon", `["force"]`, 422, "body: is not a JSON object"},
		"force is something else":    {"POST", nodes + "w1?action=enableMaintenanceMode", `{"force":"yes"}`, 422, `force: "yes" is not allowed; it is true or false`},
		"force is a number":          {"POST", nodes + "w1?action=enableMaintenanceMode", `{"force":1}`, 422, "force: 1 is not allowed"},
		"force in another case":      {"POST", nodes + "w1?action=enableMaintenanceMode", `{"Force":"true"}`, 422, `unknown field "Force"; there is force`},
		"another field":              {"POST", nodes + "w1?action=enableMaintenanceMode", `{"forced":"true"}`, 422, `unknown field "forced"`},
		"no operation":               {"POST", nodes + "w1?action=powerAction", `{}`, 422, `operation: is missing; it is one of "shutdown", "poweron", "reboot"`},
		"unknown operation":          {"POST", nodes + "w1?action=powerAction", `{"operation":"off"}`, 422, `operation: "off" is not allowed; it is one of`},
		"too large a body":           {"POST", nodes + "w1?action=cordon", `{"a":"` + strings.Repeat("x", bodyLimit) + `"}`, 413, "larger than 65536 bytes"},
		"negative limit":             {"GET", "/v1/harvester/nodes?limit=-1", "", 422, `limit: "-1" is not allowed`},
		"limit is no number":         {"GET", "/v1/harvester/nodes?limit=many", "", 422, `limit: "many"`},
		"a token of somebody else's": {"GET", "/v1/harvester/nodes?continue=***", "", 422, `continue: "***"`},
		"unknown kind":               {"GET", "/v1/harvester/virtualmachines", "", 404, ""},
		"unknown object":             {"GET", nodes + "w9", "", 404, `node "w9" does not exist`},
		"no name":                    {"GET", nodes, "", 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, h := newWorld(t, node("w1"), node("w2"))
			response, text := ask(t, h, "editor", c.method, c.target, c.body)
			if response.StatusCode != c.status || !strings.Contains(text, c.says) {
				t.Errorf("answered %d %q, want %d and %q", response.StatusCode, text, c.status, c.says)
			}
			if kind := response.Header.Get("Content-Type"); response.StatusCode >= 400 && !strings.HasPrefix(kind, "text/plain") {
				t.Errorf("the error is %q", kind)
			}
			if response.StatusCode == http.StatusMethodNotAllowed && response.Header.Get("Allow") == "" {
				t.Error("it does not say what is allowed")
			}
			if len(w.patches) > 0 {
				t.Errorf("wrote %s", w.written())
			}
		})
	}
}

func TestAHiddenActionIsForbidden(t *testing.T) {
	t.Parallel()
	for i := range actions {
		a := &actions[i]
		w, h := newWorld(t, node("w1"), node("w2"))
		for who, want := range map[string]int{"": 401, "stranger": 403, "viewer": 403} {
			if who == "viewer" && a.verb == toRead {
				continue
			}
			for _, target := range []string{"w1", "w9"} {
				response, text := ask(t, h, who, http.MethodPost, nodes+target+"?action="+a.name, "")
				if response.StatusCode != want || text == "" {
					t.Errorf("%s of %s by %q: %d %q, want %d", a.name, target, who, response.StatusCode, text, want)
				}
			}
		}
		if len(w.patches) > 0 {
			t.Errorf("%s wrote %s", a.name, w.written())
		}
	}
}

// Whatever is sent, it is answered with a status that says whose mistake it was, and a
// write happens only after a success.
func FuzzAction(f *testing.F) {
	for _, seed := range [][3]string{
		{"w1", "enableMaintenanceMode", `{"force":"true"}`}, {"w1", "cordon", "{}"}, {"w%2F1", "powerAction", `{"operation":"reboot"}`},
		{"..", "uncordon", "\xff"}, {"w1", "", `{"force":{}}`}, {"", "maintenancePlan", "null"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, name, action, body string) {
		w, h := newWorld(t, node("w1"), node("w2"))
		target := nodes + url.PathEscape(name) + "?action=" + url.QueryEscape(action)
		if _, err := url.ParseRequestURI(target); err != nil {
			t.Skip()
		}
		if action == "powerActionPossible" || action == "powerAction" {
			t.Skip() // They read kinds that this world has not.
		}
		r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
		r.Header.Set("Authorization", "editor")
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, r)
		if recorder.Code >= 500 {
			t.Errorf("%s %q: %d %s", target, body, recorder.Code, recorder.Body)
		}
		if len(w.patches) > 0 && recorder.Code >= 300 {
			t.Errorf("%s %q: wrote %s and answered %d", target, body, w.written(), recorder.Code)
		}
	})
}
