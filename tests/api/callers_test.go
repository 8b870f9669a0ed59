package api

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
)

// caller is somebody who calls the API.
type caller struct {
	house  *house
	name   string
	client *http.Client
	header http.Header
}

// answer is what a caller is told.
type answer struct {
	status int
	body   string
	header http.Header
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

var (
	viewNodes   = rule("", "nodes", "get", "list", "watch")
	updateNodes = rule("", "nodes", "update", "patch")
)

// account makes a service account with rights over the cluster, and returns it with a
// token of its own.
func (h *house) account(t *testing.T, rules ...rbacv1.PolicyRule) *caller {
	t.Helper()
	ctx, ns := t.Context(), h.Namespace(t)
	name := "drydock-test-" + ns
	if _, err := h.Kube.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "caller"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.grant(t, name, rules, rbacv1.Subject{Kind: "ServiceAccount", Namespace: ns, Name: "caller"})
	token, err := h.Kube.CoreV1().ServiceAccounts(ns).CreateToken(ctx, "caller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return h.bearer(t, "system:serviceaccount:"+ns+":caller", token.Status.Token)
}

func (h *house) bearer(t *testing.T, name, token string) *caller {
	t.Helper()
	return &caller{house: h, name: name, client: h.client(t), header: http.Header{"Authorization": {"Bearer " + token}}}
}

func (h *house) grant(t *testing.T, name string, rules []rbacv1.PolicyRule, subject rbacv1.Subject) {
	t.Helper()
	ctx, rbac := t.Context(), h.Kube.RbacV1()
	if subject.Kind != "ServiceAccount" {
		subject.APIGroup = rbacv1.GroupName
	}
	if _, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended.
		_ = rbac.ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{})
		_ = rbac.ClusterRoles().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
}

// certified is a caller with a client certificate of the cluster.
func (h *house) certified(t *testing.T, name string, groups ...string) *caller {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", h.Kubeconfig(t, name, groups...))
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	return &caller{house: h, name: name, client: h.client(t, certificate), header: http.Header{}}
}

// expired is the caller's own token as it would be some time after its end: signed by the
// cluster, and too old.
func (c *caller) expired(t *testing.T) *caller {
	t.Helper()
	token := strings.TrimPrefix(c.header.Get("Authorization"), "Bearer ")
	parts := strings.Split(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(raw, &claims); err != nil {
		t.Fatal(err)
	}
	for claim, at := range map[string]time.Duration{"iat": -2 * time.Hour, "nbf": -2 * time.Hour, "exp": -time.Hour} {
		claims[claim] = time.Now().Add(at).Unix()
	}
	if raw, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(raw)
	return c.house.bearer(t, c.name, signed+"."+base64.RawURLEncoding.EncodeToString(sign(t, c.house.StateDir, signed)))
}

func sign(t *testing.T, stateDir, text string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(stateDir, "pki", "service-accounts.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyutil.ParsePrivateKeyPEM(content)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(text))
	switch k := key.(type) {
	case *rsa.PrivateKey:
		signature, err := rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, hash[:])
		if err != nil {
			t.Fatal(err)
		}
		return signature
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, hash[:])
		if err != nil {
			t.Fatal(err)
		}
		signature := make([]byte, 64)
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
		return signature
	}
	t.Fatalf("a key of type %T", key)
	return nil
}

// impersonating is the caller in the name of another.
func (c *caller) impersonating(user string, groups ...string) *caller {
	other := &caller{house: c.house, name: user, client: c.client, header: c.header.Clone()}
	other.header["Impersonate-User"], other.header["Impersonate-Group"] = []string{user}, groups
	return other
}

func (c *caller) send(t testing.TB, method, path, body string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "https://"+c.house.address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = c.header.Clone()
	response, err := c.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // only read from
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, strings.TrimSuffix(string(raw), "\n"), response.Header}
}

// act asks for an action of a node.
func (c *caller) act(t testing.TB, node, action, body string) answer {
	t.Helper()
	return c.send(t, http.MethodPost, "/v1/harvester/nodes/"+node+"?action="+action, body)
}

func (a answer) want(t testing.TB, status int, parts ...string) {
	t.Helper()
	if a.status != status {
		t.Fatalf("answered %d %q, want %d", a.status, a.body, status)
	}
	for _, part := range parts {
		if !strings.Contains(a.body, part) {
			t.Errorf("answered %q, want it to hold %q", a.body, part)
		}
	}
	if kind := a.header.Get("Content-Type"); status >= 400 && a.body != "" && !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("the sentence is %q", kind)
	}
}

// shown is what a front-end reads of a node.
type shown struct {
	ID       string            `json:"id"`
	Actions  map[string]string `json:"actions"`
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
		State       struct{ Name, Message string }
	} `json:"metadata"`
}

func (c *caller) node(t testing.TB, name string) *shown {
	t.Helper()
	a := c.send(t, http.MethodGet, "/v1/harvester/nodes/"+name+"?exclude=metadata.managedFields", "")
	a.want(t, http.StatusOK)
	var s shown
	if err := json.Unmarshal([]byte(a.body), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}
