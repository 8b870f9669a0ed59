package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// reads are the endpoints, each with the status for one who may view nodes alone.
var reads = map[string]int{
	"nodes": 200, "nodes/NODE": 200, "namespaces": 403, "namespaces/default": 403, "pods": 403, "pods/default/x": 403,
	"schemas": 200, "schemas/node": 200, "schemas/pod": 404, "counts": 200, "management.cattle.io.settings": 200,
	"management.cattle.io.clusters/local": 200, "harvesterhci.io.settings": 200,
}

var asking = []string{"maintenancePossible", "listUnhealthyVM", "maintenancePlan", "powerActionPossible"}

var changing = []string{
	"enableMaintenanceMode", "disableMaintenanceMode", "clearMaintenanceMode", "cordon", "uncordon", "powerAction", "enableCPUManager", "disableCPUManager",
}

func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	h := serving(t)
	host := h.Pool(t, 1).Host(0)
	viewer, editor := h.account(t, viewNodes), h.account(t, viewNodes, updateNodes)
	user := "user-" + host
	h.grant(t, user, []rbacv1.PolicyRule{viewNodes}, rbacv1.Subject{Kind: "User", Name: user})
	proxy := h.account(t, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}, ResourceNames: []string{user}})
	forged := h.bearer(t, "forged", "not.a.token")
	for name, c := range map[string]struct {
		*caller
		status int
		views  bool
	}{
		"anonymous":                          {caller: &caller{house: h, client: h.client(t), header: http.Header{}}, status: 401},
		"a token that is none":               {caller: forged, status: 401},
		"an expired token":                   {caller: editor.expired(t), status: 401},
		"a certificate without rights":       {caller: h.certified(t, "nobody-"+host, "no-such-group"), status: 403},
		"a token without rights":             {caller: h.account(t), status: 403},
		"may view nodes":                     {caller: viewer, status: 403, views: true},
		"a proxy in the name of its user":    {caller: proxy.impersonating(user), status: 403, views: true},
		"a proxy in the name of another":     {caller: proxy.impersonating("admin"), status: 403},
		"a proxy as an administrator":        {caller: proxy.impersonating(user, "system:masters"), status: 403},
		"an editor in the name of another":   {caller: editor.impersonating(user), status: 403},
		"one who names groups without users": {caller: &caller{house: h, client: viewer.client, header: http.Header{"Authorization": viewer.header["Authorization"], "Impersonate-Group": {"system:masters"}}}, status: 403},
		"a proxy in its own name":            {caller: proxy, status: 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Whoever is refused as a caller is refused everything.
			outright := c.status == 401 || (!c.views && (strings.Contains(name, "in the name") || strings.Contains(name, "administrator") || strings.Contains(name, "groups without")))
			for path, status := range reads {
				want := status
				switch {
				case outright:
					want = c.status
				case !c.views && strings.HasPrefix(path, "nodes"):
					want = http.StatusForbidden
				case !c.views && path == "schemas/node":
					want = http.StatusNotFound
				}
				for _, prefix := range []string{"/v1/", "/v1/harvester/"} {
					if got := c.send(t, http.MethodGet, prefix+strings.Replace(path, "NODE", host, 1), ""); got.status != want {
						t.Errorf("GET %s%s: %d %s, want %d", prefix, path, got.status, got.body, want)
					}
				}
			}
			for _, action := range slices.Concat(asking, changing) {
				for _, node := range []string{host, "no-such-node"} {
					want := fmt.Sprint(c.status)
					if c.views && slices.Contains(asking, action) {
						want = "200 204 424"
						if node != host {
							want = "404"
						}
					}
					if got := c.act(t, node, action, ""); !strings.Contains(want, fmt.Sprint(got.status)) {
						t.Errorf("%s of %s: %d %s, want %s", action, node, got.status, got.body, want)
					}
				}
			}
			c.act(t, host, "reboot", "").want(t, map[bool]int{true: c.status, false: 403}[outright])
			if _, status := dial(t, c.caller); (status == http.StatusSwitchingProtocols) == outright {
				t.Errorf("the websocket is answered with %d", status)
			}
		})
	}
	t.Cleanup(func() {
		n, err := h.Kube.CoreV1().Nodes().Get(context.Background(), host, metav1.GetOptions{})
		if err == nil && (n.Spec.Unschedulable || n.Annotations[maintenance.AnnotationRequested] != "") {
			t.Errorf("somebody without rights has changed the node: %v", n.Annotations)
		}
	})
}

// One who may change a single node is offered its actions on that node, and on no other.
func TestRightsOverOneNode(t *testing.T) {
	t.Parallel()
	h := serving(t)
	pool := h.Pool(t, 2)
	one := updateNodes
	one.ResourceNames = []string{pool.Host(0)}
	c := h.account(t, viewNodes, one)
	if _, offered := c.node(t, pool.Host(0)).Actions["cordon"]; !offered {
		t.Error("he is not offered what he may")
	}
	if _, offered := c.node(t, pool.Host(1)).Actions["cordon"]; offered {
		t.Error("he is offered what he may not")
	}
	c.act(t, pool.Host(0), "cordon", "{}").want(t, http.StatusNoContent)
	c.act(t, pool.Host(1), "cordon", "{}").want(t, http.StatusForbidden, "may not update nodes")
	h.AwaitNode(t, pool.Host(0), "cordoned", func(n *corev1.Node) bool { return n.Spec.Unschedulable })
}

// Certificates of administrators, and a front proxy's word, are believed as the Kubernetes
// API believes them.
func TestOtherWaysToProveWhoOneIs(t *testing.T) {
	t.Parallel()
	h := serving(t)
	host := h.Pool(t, 1).Host(0)
	admin := h.certified(t, "admin-"+host)
	admin.act(t, host, "cordon", "{}").want(t, http.StatusNoContent)
	admin.act(t, host, "uncordon", "{}").want(t, http.StatusNoContent)
	if line, err := h.manager.AwaitLine(func(l managerLine) bool {
		return l.Message == "action" && strings.Contains(l.Raw, `"action":"cordon"`) && l.Node == host
	}); err != nil || !strings.Contains(line.Raw, `"user":"`+admin.name+`"`) || !strings.Contains(line.Raw, `"outcome":204`) || !strings.Contains(line.Raw, `"request":"`) {
		t.Errorf("the action is logged as %s, %v", line.Raw, err)
	}

	proxied := h.frontProxy(t)
	proxied.header.Set("X-Remote-User", "somebody")
	proxied.act(t, host, "cordon", "{}").want(t, http.StatusForbidden, "somebody may not")
	proxied.header.Set("X-Remote-Group", "system:masters")
	proxied.act(t, host, "maintenancePossible", "").want(t, http.StatusNoContent)
	lying := h.certified(t, "liar-"+host, "no-such-group")
	lying.header.Set("X-Remote-User", "somebody")
	lying.header.Set("X-Remote-Group", "system:masters")
	lying.act(t, host, "maintenancePossible", "").want(t, http.StatusForbidden, lying.name)
}
