package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drydock-dev/drydock/hack/devcluster/balancer"
	"github.com/drydock-dev/drydock/hack/devcluster/process"
	"github.com/drydock-dev/drydock/hack/devcluster/state"
)

// envMain makes the test binary be devcluster itself.
const envMain = "DRYDOCK_TEST_DEVCLUSTER"

func TestMain(m *testing.M) {
	if os.Getenv(envMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// devcluster runs the command to its end and returns what it printed.
func devcluster(t *testing.T, dir state.Dir, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append(args, "--state-dir", string(dir))...)
	cmd.Env = append(os.Environ(), envMain+"=1")
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// up boots a cluster in the background and ends it with the test.
func up(t *testing.T, args ...string) state.Dir {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a cluster")
	}
	dir := state.Dir(filepath.Join(t.TempDir(), "state"))
	t.Cleanup(func() {
		if output, err := devcluster(t, dir, "down"); err != nil {
			t.Errorf("down: %v\n%s", err, output)
		}
	})
	if output, err := devcluster(t, dir, append([]string{"up", "--detach"}, args...)...); err != nil {
		t.Fatalf("up: %v\n%s", err, output)
	}
	return dir
}

func client(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30s: %s", what)
		}
	}
}

func TestLifeOfACluster(t *testing.T) {
	dir := up(t, "--control-planes=1", "--workers=1", "--witnesses=1")
	kube := client(t, dir.Kubeconfig())

	t.Run("status tells that all is well", func(t *testing.T) {
		output, err := devcluster(t, dir, "status")
		if err != nil {
			t.Fatalf("status: %v\n%s", err, output)
		}
		for _, want := range []string{
			"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "virt-api", "virt-controller",
			"sum", "cp1", "w1", "witness1", dir.Kubeconfig(),
		} {
			if !strings.Contains(output, want) {
				t.Errorf("status lacks %q:\n%s", want, output)
			}
		}
	})
	t.Run("a second cluster in the same directory is refused", func(t *testing.T) {
		for _, args := range [][]string{{"up"}, {"up", "--detach"}} {
			output, err := devcluster(t, dir, args...)
			if err == nil || !strings.Contains(output, "in use") || !strings.Contains(output, "pid") {
				t.Errorf("%v: %v\n%s", args, err, output)
			}
		}
	})
	t.Run("namespaces exist", func(t *testing.T) {
		for _, name := range []string{"harvester-system", "kubevirt", "longhorn-system"} {
			if _, err := kube.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("a witness takes no pods", func(t *testing.T) {
		node, err := kube.CoreV1().Nodes().Get(t.Context(), "witness1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Effect != corev1.TaintEffectNoSchedule {
			t.Errorf("its taints are %v", node.Spec.Taints)
		}
	})
	t.Run("certificates are issued", func(t *testing.T) { issuesCertificates(t, dir) })
	t.Run("a Service is balanced", func(t *testing.T) { balancesAService(t, kube) })
	t.Run("a dead component is named", func(t *testing.T) { namesADeadComponent(t, dir) })
}

func issuesCertificates(t *testing.T, dir state.Dir) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if output, err := devcluster(t, dir, "kubeconfig", "--user", "jane", "--group", "sim.drydock.dev:audited", "--output", file); err != nil {
		t.Fatalf("kubeconfig: %v\n%s", err, output)
	}
	if _, err := client(t, file).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a user without rights lists nodes")
	}
	log, err := os.ReadFile(dir.Audit())
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		var event struct{ User struct{ Username string } }
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		if event.User.Username != "jane" {
			t.Errorf("the audit log has a request of %s", event.User.Username)
		}
	}
	if len(log) == 0 {
		t.Error("the audit log lacks the request of a member of the audited group")
	}
}

func balancesAService(t *testing.T, kube kubernetes.Interface) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "here") }))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	services := kube.CoreV1().Services("harvester-system")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "balanced", Annotations: map[string]string{balancer.BackendsAnnotation: address}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
	if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var port string
	eventually(t, "the Service has its port", func() bool {
		got, err := services.Get(t.Context(), "balanced", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		port = got.Annotations[balancer.PortAnnotation]
		return port != "" && got.Spec.Type == corev1.ServiceTypeExternalName
	})
	answers := func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+net.JoinHostPort("127.0.0.1", port), nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}
	eventually(t, "the backend answers", answers)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:""}}}`, balancer.BackendsAnnotation)
	if _, err := services.Patch(t.Context(), "balanced", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a removed backend gets no connections", func() bool { return !answers() })
}

func namesADeadComponent(t *testing.T, dir state.Dir) {
	info, err := dir.ReadInfo()
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range info.Components {
		if component.Name == "kube-scheduler" {
			if err := syscall.Kill(component.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "the cluster ends", func() bool {
		_, running, err := dir.Running()
		return err == nil && !running
	})
	report, err := os.ReadFile(filepath.Join(string(dir), "devcluster.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kube-scheduler", "signal: killed", dir.Log("kube-scheduler")} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	assertNothingLives(t, info)
}

func TestAKilledClusterLeavesNothing(t *testing.T) {
	dir := up(t, "--control-planes=0")
	info, err := dir.ReadInfo()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(info.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	assertNothingLives(t, info)
	if output, err := devcluster(t, dir, "status"); err == nil {
		t.Errorf("status of a killed cluster succeeds:\n%s", output)
	}
	t.Run("and another can start in its place", func(t *testing.T) {
		if output, err := devcluster(t, dir, "up", "--detach", "--control-planes=0"); err != nil {
			t.Errorf("up: %v\n%s", err, output)
		}
	})
}

func assertNothingLives(t *testing.T, info state.Info) {
	t.Helper()
	for _, component := range info.Components {
		eventually(t, component.Name+" is gone", func() bool {
			_, alive := process.ResidentMiB(component.PID)
			return !alive
		})
	}
}

func TestWithoutSourcesTheErrorSaysWhatToDo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	command := newCommand()
	command.SetArgs([]string{"up", "--source", t.TempDir(), "--state-dir", filepath.Join(t.TempDir(), "state")})
	if err := command.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), "--source") {
		t.Errorf("got %v, want a hint at --source", err)
	}
}
