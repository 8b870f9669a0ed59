package process

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/manager"
	"github.com/drydock-dev/drydock/tests/operator"
)

// unpacked are the files of an archive, by their name below its folder.
func unpacked(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read from
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for reader := tar.NewReader(zip); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		_, below, _ := strings.Cut(header.Name, "/")
		found[below] = string(content)
	}
}

// A bundle from a cluster with a maintenance, by somebody who may read everything, by
// somebody who may read only nodes, by a stranger, and when nobody answers.
func TestABundleHasWhatHelpsAndNoSecrets(t *testing.T) {
	c := cluster.For(t)
	manager.Start(t, c.Kubeconfig(t, "drydock"))
	ns, pool := c.Namespace(t), c.Pool(t, 2)
	host := pool.Host(0)
	const secret = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 alice@example.org"
	vm := operator.Movable(c, ns, "a", pool).Strategy("ShutdownAndRestartAfterDisable")
	operator.Create(t, vm.Change(func(vm *virtv1.VirtualMachine) {
		spec := &vm.Spec.Template.Spec
		spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, virtv1.Disk{Name: "init", DiskDevice: virtv1.DiskDevice{Disk: &virtv1.DiskTarget{Bus: virtv1.DiskBusVirtio}}})
		spec.Volumes = append(spec.Volumes, virtv1.Volume{Name: "init", VolumeSource: virtv1.VolumeSource{CloudInitNoCloud: &virtv1.CloudInitNoCloudSource{UserData: "#cloud-config\nssh_authorized_keys: [" + secret + "]"}}})
		vm.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": secret}
	}))
	operator.Annotate(t, c, host, map[string]string{maintenance.AnnotationRequested: "true", maintenance.AnnotationRequestedBy: "CN=alice Doe,OU=alice; by=alice"})
	operator.AwaitPhase(t, c, host, maintenance.PhaseCompleted)
	operator.AwaitEvent(t, c, "VirtualMachine", ns, "a", "MaintenanceStopping")
	operator.AwaitEvent(t, c, "Node", "", host, "MaintenanceRequested", "requested by")

	output := filepath.Join(t.TempDir(), "bundle.tar.gz")
	said, err := manager.Run(t.Context(), "bundle", "--kubeconfig", c.Kubeconfig(t, "helper"), "--output", output)
	if err != nil {
		t.Fatalf("%v:\n%s", err, said)
	}
	files := unpacked(t, output)
	for name, content := range files {
		for _, hidden := range []string{"AAAAC3NzaC1lZDI1NTE5", "ssh_authorized_keys", "alice", "managedFields", "BEGIN CERTIFICATE"} {
			if name != "README.txt" && strings.Contains(content, hidden) {
				t.Errorf("%s holds %s", name, hidden)
			}
		}
	}
	for name, holds := range map[string]string{
		"resources/nodes.yaml": host, "resources/virtualmachines.yaml": "namespace: " + ns, "resources/kubevirts.yaml": "status:",
		"resources/events.yaml": "MaintenanceCompleted", "resources/leases.yaml": "drydock-admission", "plans/" + host + ".json": `"vmsTotal": 1`,
		"README.txt": "Left out are", "unread.txt": "logs: there is no pod",
	} {
		if !strings.Contains(files[name], holds) {
			t.Errorf("%s has no %q:\n%.2000s", name, holds, files[name])
		}
	}
	if who := `maintenance was requested by "(left out)"`; !strings.Contains(files["resources/events.yaml"], who) {
		t.Errorf("resources/events.yaml has no %s", who)
	}
	if said, err := manager.Run(t.Context(), "bundle", "--kubeconfig", c.Kubeconfig(t, "helper"), "--output", output); err == nil {
		t.Errorf("a file that exists is written over:\n%s", said)
	}

	for _, kind := range []string{"mutating", "validating"} {
		if gone := kind + "webhookconfigurations.admissionregistration.k8s.io drydock: not there"; !strings.Contains(files["unread.txt"], gone) {
			t.Errorf("unread.txt does not say %q:\n%s", gone, files["unread.txt"])
		}
	}
	t.Run("when it is called otherwise", func(t *testing.T) {
		admission := c.Kube.AdmissionregistrationV1()
		mutating := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "other-drydock", Labels: map[string]string{"app.kubernetes.io/name": "drydock"}}}
		validating := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
		if _, err := admission.MutatingWebhookConfigurations().Create(t.Context(), mutating, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := admission.ValidatingWebhookConfigurations().Create(t.Context(), validating, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx := context.Background() // the test's own has ended
			if err := errors.Join(admission.MutatingWebhookConfigurations().Delete(ctx, mutating.Name, metav1.DeleteOptions{}),
				admission.ValidatingWebhookConfigurations().Delete(ctx, validating.Name, metav1.DeleteOptions{})); err != nil {
				t.Error(err)
			}
		})
		output := filepath.Join(t.TempDir(), "bundle.tar.gz")
		if said, err := manager.Run(t.Context(), "bundle", "--kubeconfig", c.Kubeconfig(t, "helper"), "--webhook-configuration", "mine", "--output", output); err != nil {
			t.Fatalf("%v:\n%s", err, said)
		}
		files := unpacked(t, output)
		if !strings.Contains(files["resources/mutatingwebhookconfigurations.yaml"], "other-drydock") || !strings.Contains(files["resources/validatingwebhookconfigurations.yaml"], "name: mine") {
			t.Error("it has not the webhook configurations, by their label or their name")
		}
		if strings.Contains(files["unread.txt"], "webhookconfigurations") {
			t.Errorf("unread.txt says that something is missing:\n%s", files["unread.txt"])
		}
	})
	t.Run("who may read nodes only", func(t *testing.T) {
		allow(t, c, "sees-nodes", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}})
		output := filepath.Join(t.TempDir(), "bundle.tar.gz")
		said, err := manager.Run(t.Context(), "bundle", "--kubeconfig", c.Kubeconfig(t, "limited", "sees-nodes"), "--output", output)
		if err != nil || !strings.Contains(said, "virtualmachines.kubevirt.io: not allowed") {
			t.Errorf("%v:\n%s", err, said)
		}
		files := unpacked(t, output)
		if files["resources/nodes.yaml"] == "" || files["resources/virtualmachines.yaml"] != "" {
			t.Error("it has not the nodes, or has VMs")
		}
		for _, missing := range []string{"virtualmachines.kubevirt.io", "events", "logs", "leases.coordination.k8s.io"} {
			if !strings.Contains(files["unread.txt"], missing+": not allowed") {
				t.Errorf("unread.txt does not name %s:\n%s", missing, files["unread.txt"])
			}
		}
		if strings.Contains(files["unread.txt"], "limited") {
			t.Error("unread.txt says who read")
		}
	})
	// KubeVirt lets everybody read its own resource.
	t.Run("who may read nothing of his own", func(t *testing.T) {
		output := filepath.Join(t.TempDir(), "bundle.tar.gz")
		said, err := manager.Run(t.Context(), "bundle", "--kubeconfig", c.Kubeconfig(t, "stranger", "strangers"), "--output", output)
		if err != nil || !strings.Contains(said, "nodes: not allowed") {
			t.Errorf("%v:\n%s", err, said)
		}
	})
	t.Run("when nobody answers", func(t *testing.T) {
		output := filepath.Join(t.TempDir(), "bundle.tar.gz")
		said, err := manager.Run(t.Context(), "bundle", "--kubeconfig", toNobody(t, c.Kubeconfig(t, "helper")), "--output", output)
		if err == nil || !strings.Contains(said, "nothing could be read") {
			t.Errorf("%v:\n%s", err, said)
		}
		if _, err := os.Stat(output); !os.IsNotExist(err) {
			t.Errorf("an archive of nothing is left: %v", err)
		}
	})
}

// toNobody returns a copy of a kubeconfig that names a port on which nobody listens.
func toNobody(t *testing.T, kubeconfig string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range config.Clusters {
		server.Server = "https://127.0.0.1:1"
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// allow gives a group a right on the whole cluster.
func allow(t *testing.T, c *cluster.Cluster, group string, rule rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "test-" + group}
	rbac := c.Kube.RbacV1()
	if _, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
