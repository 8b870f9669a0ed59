package kubevirt

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/log"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/install"
	operator "kubevirt.io/kubevirt/pkg/virt-operator/util"
)

// Namespace is where KubeVirt lives. Its programs assume this one when they do
// not run in a pod.
const Namespace = "kubevirt"

const (
	version = "v1.7.0"
	// registry is never contacted: simulated hosts pull nothing.
	registry      = "registry.invalid/kubevirt"
	launcherImage = registry + "/virt-launcher:" + version
	exporterImage = registry + "/virt-exportserver:" + version
)

// environment is what virt-operator reads about itself from its own pod. A type
// of its own, so that installing does not change this process's environment.
type environment map[string]string

func (e environment) Getenv(key string) string   { return e[key] }
func (e environment) Setenv(key, v string) error { e[key] = v; return nil }
func (e environment) Unsetenv(key string) error  { delete(e, key); return nil }
func (e environment) Environ() []string {
	var out []string
	for key, value := range e {
		out = append(out, key+"="+value)
	}
	return out
}

// manifests is everything that is installed.
type manifests struct {
	*install.Strategy
	config   *operator.KubeVirtDeploymentConfig
	object   *virtv1.KubeVirt
	ownCRD   *extv1.CustomResourceDefinition
	priority *schedulingv1.PriorityClass
}

// newManifests asks KubeVirt's own generator for its objects.
func newManifests(verbosity uint) (*manifests, error) {
	object := &virtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Name: "kubevirt", Namespace: Namespace}}
	// The processes take their verbosity from here; their -v flag holds only
	// until they have read it.
	object.Spec.Configuration.DeveloperConfiguration = &virtv1.DeveloperConfiguration{
		LogVerbosity: &virtv1.LogVerbosity{VirtAPI: verbosity, VirtController: verbosity},
	}
	// The generator remarks on this process's output that there is no Prometheus.
	log.Log.SetIOWriter(io.Discard)
	config := operator.GetTargetConfigFromKVWithEnvVarManager(object, environment{
		operator.VirtOperatorImageEnvName: registry + "/virt-operator:" + version,
		operator.KubeVirtVersionEnvName:   version,
	})
	strategy, err := install.GenerateCurrentInstallStrategy(config, "", Namespace)
	if err != nil {
		return nil, fmt.Errorf("generating KubeVirt's objects: %w", err)
	}
	ownCRD, err := components.NewKubeVirtCrd()
	if err != nil {
		return nil, fmt.Errorf("generating the KubeVirt CRD: %w", err)
	}
	return &manifests{
		Strategy: strategy, config: config, object: object,
		ownCRD: ownCRD, priority: components.NewKubeVirtPriorityClassCR(),
	}, nil
}

// setDeployed fills the status that the operator would have reached. virt-api and
// virt-controller ignore all configuration while the phase is empty.
func (m *manifests) setDeployed(object *virtv1.KubeVirt) error {
	status := &object.Status
	status.Phase = virtv1.KubeVirtPhaseDeployed
	status.OperatorVersion = version
	status.ObservedGeneration = &object.Generation
	now := metav1.Now()
	for kind, value := range map[virtv1.KubeVirtConditionType]corev1.ConditionStatus{
		virtv1.KubeVirtConditionCreated:     corev1.ConditionTrue,
		virtv1.KubeVirtConditionAvailable:   corev1.ConditionTrue,
		virtv1.KubeVirtConditionProgressing: corev1.ConditionFalse,
		virtv1.KubeVirtConditionDegraded:    corev1.ConditionFalse,
	} {
		status.Conditions = append(status.Conditions, virtv1.KubeVirtCondition{
			Type: kind, Status: value, Reason: "InstalledByDevCluster",
			LastProbeTime: now, LastTransitionTime: now,
		})
	}
	for _, set := range []func(*virtv1.KubeVirt) error{
		m.config.SetTargetDeploymentConfig, m.config.SetObservedDeploymentConfig, m.config.SetDefaultArchitecture,
	} {
		if err := set(object); err != nil {
			return fmt.Errorf("filling the KubeVirt object's status: %w", err)
		}
	}
	return nil
}

// local turns the Service of virt-api into a name for this machine. The Service
// cannot translate ports, so whoever refers to it names the process's real port.
func local(services []*corev1.Service) []*corev1.Service {
	var out []*corev1.Service
	for _, service := range services {
		switch service.Name {
		case components.VirtApiServiceName:
			service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
		case components.KubevirtOperatorWebhookServiceName:
			continue // no operator runs
		}
		out = append(out, service)
	}
	return out
}
