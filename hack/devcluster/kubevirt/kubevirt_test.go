package kubevirt

import (
	"crypto/x509"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/kubevirt/pkg/certificates/triple/cert"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"

	"github.com/drydock-dev/drydock/hack/devcluster/state"
)

func prepare(t *testing.T) *Installer {
	t.Helper()
	dir := state.Dir(t.TempDir())
	if err := os.MkdirAll(dir.Run(), 0o700); err != nil {
		t.Fatal(err)
	}
	installer, err := Prepare(dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	return installer
}

func TestCertificatesAreThoseThatTheApiserverVerifies(t *testing.T) {
	certs := prepare(t).certs
	for secret, name := range map[string]string{
		components.VirtApiCertSecretName:        "virt-api.kubevirt.svc",
		components.VirtControllerCertSecretName: "virt-controller.kubevirt.svc",
	} {
		content, err := os.ReadFile(certs.cert(secret))
		if err != nil {
			t.Fatal(err)
		}
		leaf := parse(t, content)
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: certs.roots, DNSName: name}); err != nil {
			t.Errorf("%s: %v", secret, err)
		}
	}
}

func TestTrustIsPublishedOncePerConfigMap(t *testing.T) {
	installer := prepare(t)
	data := map[string]string{}
	for _, configMap := range installer.certs.fill(installer.manifests.ConfigMaps()) {
		if _, again := data[configMap.Name]; again {
			t.Errorf("%s is listed twice", configMap.Name)
		}
		data[configMap.Name] = configMap.Data[components.CABundleKey]
	}
	for _, name := range []string{components.KubeVirtCASecretName, components.KubeVirtExportCASecretName} {
		if data[name] == "" {
			t.Errorf("%s is empty", name)
		}
	}
	if _, ok := data[components.ExternalKubeVirtCAConfigMapName]; !ok {
		t.Errorf("%s is missing", components.ExternalKubeVirtCAConfigMapName)
	}
}

func TestOnlyVirtAPIIsLedToThisMachine(t *testing.T) {
	for _, service := range local(prepare(t).manifests.Services()) {
		external := service.Spec.Type == corev1.ServiceTypeExternalName
		if want := service.Name == components.VirtApiServiceName; external != want {
			t.Errorf("%s is ExternalName: %t, want %t", service.Name, external, want)
		}
		if service.Name == components.KubevirtOperatorWebhookServiceName {
			t.Error("the Service of the operator, which does not run, is installed")
		}
	}
}

func TestTheOperatorsWebhooksAreLeftOut(t *testing.T) {
	all := prepare(t).manifests.ValidatingWebhookConfigurations()
	if own := virtAPIsOwn(all); len(own) != len(all)-1 {
		t.Errorf("%d of %d validating webhook configurations remain, want all but one", len(own), len(all))
	}
}

func TestTheStatusMakesConfigurationCount(t *testing.T) {
	m := prepare(t).manifests
	if err := m.setDeployed(m.object); err != nil {
		t.Fatal(err)
	}
	status := m.object.Status
	if status.Phase != virtv1.KubeVirtPhaseDeployed || status.ObservedKubeVirtVersion != version ||
		status.ObservedDeploymentID == "" || status.ObservedDeploymentID != status.TargetDeploymentID || status.DefaultArchitecture == "" {
		t.Errorf("the status is %+v", status)
	}
}

func parse(t *testing.T, content []byte) *x509.Certificate {
	t.Helper()
	certificates, err := cert.ParseCertsPEM(content)
	if err != nil {
		t.Fatal(err)
	}
	return certificates[0]
}
