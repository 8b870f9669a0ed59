package install

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/restmapper"

	"github.com/drydock-dev/drydock/pkg/app"
	"github.com/drydock-dev/drydock/tests/cluster"
)

const somebodysCA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

// matrix are ways to install the chart: each value at least once away from its default.
var matrix = map[string][]string{
	"as it comes":             nil,
	"one replica":             {"--set", "replicas=1,leaderElect=false,priorityClassName=,shutdownDelaySeconds=0"},
	"five replicas":           {"--set", "replicas=5,shutdownDelaySeconds=20"},
	"takeover":                {"--set", "harvester=takeover,webhooks.failurePolicy.nodeMutate=Fail"},
	"without Harvester":       {"--set", "harvester=absent"},
	"limits":                  {"--set", "drain.timeout=2h30m,drain.forcePolicy=honor-strategy,drain.liveMigrateIfPossibleConsents=yes"},
	"a boolean for consent":   {"--set-json", `drain={"liveMigrateIfPossibleConsents":false}`},
	"no webhooks":             {"--set", "webhooks.enabled=false"},
	"no API":                  {"--set", "api.enabled=false"},
	"neither":                 {"--set", "api.enabled=false,webhooks.enabled=false"},
	"webhooks that refuse":    {"--set", "webhooks.failurePolicy.virtualMachineMutate=Fail,webhooks.failurePolicy.virtualMachineValidate=Fail,webhooks.failurePolicy.nodeValidate=Fail,webhooks.timeoutSeconds=5,webhooks.excludedNamespaces={a,b}"},
	"other ports":             {"--set", "webhooks.port=10001,api.port=10002,metrics.port=10003,health.port=10004"},
	"no metrics":              {"--set", "metrics.enabled=false"},
	"cert-manager":            {"--set", "tls.source=certManager"},
	"cert-manager's issuer":   {"--set", "tls.source=certManager,tls.certManager.issuerRef.name=ca,tls.certManager.issuerRef.kind=ClusterIssuer,tls.certManager.duration=240h,tls.certManager.renewBefore=24h"},
	"a Secret":                {"--set", "tls.source=secret,tls.secretName=ours", "--set-string", "tls.caBundle=" + somebodysCA},
	"proxies":                 {"--set", "api.trustedProxies={10.0.0.0/8,::1}"},
	"other labels":            {"--set", "labelSync.keys={example.org/a,example.org/b},labelSync.prefix=example.org/"},
	"no labels":               {"--set", "labelSync.enabled=false"},
	"watched":                 {"--set", "metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true,metrics.serviceMonitor.interval=1m"},
	"watched closely":         {"--set", "tls.source=certManager,tls.certManager.duration=240h,tls.certManager.renewBefore=24h,metrics.prometheusRule.enabled=true,metrics.prometheusRule.certificateEndsWithin=12h"},
	"an Ingress":              {"--set", "api.ingress.enabled=true,api.ingress.host=drydock.example.org,api.ingress.className=nginx,api.ingress.tlsSecretName=cert", "--set-json", `api.ingress.annotations={"nginx.ingress.kubernetes.io/backend-protocol":"HTTPS"}`},
	"a narrow network":        {"--set-json", `networkPolicy={"apiServerPorts":[6443],"metricsFrom":[{"namespaceSelector":{}}]}`},
	"no network policy":       {"--set", "networkPolicy.enabled=false"},
	"an image by digest":      {"--set", "image.repository=example.org/drydock,image.digest=sha256:" + strings.Repeat("0a", 32) + ",image.pullPolicy=Always,imagePullSecrets[0].name=pull"},
	"elsewhere":               {"--set-json", `nodeSelector={"a":"b"}`, "--set-json", "tolerations=[]", "--set-json", "affinity={}", "--set-json", `resources={"limits":{"memory":"1Gi"}}`},
	"with labels":             {"--set-json", `podLabels={"a":"b"}`, "--set-json", `podAnnotations={"a":"b"}`, "--set-json", `serviceAccountAnnotations={"a":"b"}`},
	"the log of a programmer": {"--set", "log.level=trace,log.format=json"},
}

func TestTheChartPassesLint(t *testing.T) {
	t.Parallel()
	for name, flags := range matrix {
		if output, err := helm(t, nil, append([]string{"lint", "--strict", chart}, flags...)...); err != nil {
			t.Errorf("%s: %v\n%s", name, err, output)
		}
	}
}

// foreign are kinds of systems that the dev cluster does not have.
var foreign = []string{"cert-manager.io", "monitoring.coreos.com"}

// Every object is one that the API server would take, without a field that it does not
// know.
func TestTheAPIServerTakesWhatTheChartRenders(t *testing.T) {
	t.Parallel()
	c := cluster.For(t)
	groups, err := restmapper.GetAPIGroupResources(c.Kube.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for name, flags := range matrix {
		t.Run(name, func(t *testing.T) {
			for _, object := range render(t, flags...) {
				kind := object.GroupVersionKind()
				mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
				if meta.IsNoMatchError(err) && slices.Contains(foreign, kind.Group) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace()).Create(t.Context(), object,
					metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
				if err != nil && !apierrors.IsAlreadyExists(err) {
					t.Errorf("%s %s: %v", kind.Kind, object.GetName(), err)
				}
				if mapping.Scope.Name() == meta.RESTScopeNameNamespace && object.GetNamespace() != namespace && object.GetName() != release+"-authentication" {
					t.Errorf("%s %s: is in namespace %q", kind.Kind, object.GetName(), object.GetNamespace())
				}
			}
		})
	}
}

func TestBadValuesAreNamed(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"replicas=0":                                "replicas",
		"replica=3":                                 "replica",
		"drain.timeout=90":                          "timeout",
		"harvester=maybe":                           "harvester",
		"webhooks.timeoutSeconds=30":                "timeoutSeconds",
		"webhooks.failurePolicy.nodeMutate=No":      "nodeMutate",
		"image.digest=latest":                       "digest",
		"leaderElect=false":                         "leaderElect: false with replicas: 3",
		"harvester=takeover,webhooks.enabled=false": "harvester: takeover needs webhooks.enabled: true",
		"tls.source=secret":                         "tls.caBundle: is empty",
		"api.ingress.enabled=true":                  "api.ingress.host",
		"api.ingress.path=/dock":                    "path",
		"metrics.prometheusRule.enabled=true,tls.source=certManager,tls.certManager.renewBefore=24h": "metrics.prometheusRule.certificateEndsWithin: 168h is not less than the 24h",
		"metrics.prometheusRule.enabled=true,metrics.prometheusRule.certificateEndsWithin=720h":      "metrics.prometheusRule.certificateEndsWithin: 720h is not less than the 720h",
		"metrics.prometheusRule.certificateEndsWithin=7d":                                            "certificateEndsWithin",
		"metrics.port=8443": "is the port of",
		"metrics.enabled=false,metrics.serviceMonitor.enabled=true": "metrics.serviceMonitor.enabled: true needs metrics.enabled: true",
		"metrics.enabled=false,metrics.prometheusRule.enabled=true": "metrics.prometheusRule.enabled: true needs metrics.enabled: true",
	} {
		if output, err := helm(t, nil, "template", release, chart, "--set", value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, which does not name %q\n%.200s", value, err, want, output)
		}
	}
}

func into[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) *T {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == kind {
			typed := new(T)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
				t.Fatal(err)
			}
			return typed
		}
	}
	t.Fatalf("the chart renders no %s", kind)
	return nil
}

func arguments(t *testing.T, flags ...string) []string {
	t.Helper()
	return into[appsv1.Deployment](t, render(t, flags...), "Deployment").Spec.Template.Spec.Containers[0].Args
}

// Without an election a second pod acts as well, also while it takes the place of the
// first.
func TestTwoPodsNeverActAtOnce(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]appsv1.DeploymentStrategyType{
		"replicas=1,leaderElect=false": appsv1.RecreateDeploymentStrategyType,
		"replicas=1":                   appsv1.RollingUpdateDeploymentStrategyType,
		"replicas=3":                   appsv1.RollingUpdateDeploymentStrategyType,
	} {
		if got := into[appsv1.Deployment](t, render(t, "--set", flags), "Deployment").Spec.Strategy; got.Type != want || got.RollingUpdate != nil != (want == appsv1.RollingUpdateDeploymentStrategyType) {
			t.Errorf("%s: the pods are replaced by %+v, not %s", flags, got, want)
		}
	}
}

// The alert on a certificate's end has the limit that was set, since one that is renewed
// later than that would be an alert each time.
func TestTheAlertOnACertificatesEndHasItsLimit(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{"": "168 * 3600", ",metrics.prometheusRule.certificateEndsWithin=12h": "12 * 3600"} {
		output, err := helm(t, nil, "template", release, chart, "--set", "metrics.prometheusRule.enabled=true"+values)
		if err != nil || !strings.Contains(output, "drydock_certificate_expiry_timestamp_seconds) - time() < "+want+"\n") {
			t.Errorf("--set %s: the alert has not the limit %s: %v", values, want, err)
		}
	}
}

// The program takes what the chart gives it: it gets as far as the cluster, which is not
// there.
func TestTheProgramTakesItsArguments(t *testing.T) {
	t.Parallel()
	for name, flags := range matrix {
		command := app.Command()
		command.Writer, command.ErrWriter = io.Discard, io.Discard
		err := command.Run(t.Context(), append([]string{"drydock", "--kubeconfig=/no/such/file"}, arguments(t, flags...)...))
		if err == nil || !strings.HasPrefix(err.Error(), "--kubeconfig: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// inPods are flags that mean something outside a pod only.
var inPods = []string{"kubeconfig"}

// The chart sets every flag, and none that there is not.
func TestEveryFlagHasAValue(t *testing.T) {
	t.Parallel()
	set := map[string]bool{}
	// These two say nothing when they are empty.
	for _, arg := range arguments(t, "--set", "api.trustedProxies={::1},labelSync.keys={a}") {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		set[name] = true
	}
	for _, flag := range app.Command().Flags {
		name := flag.Names()[0]
		if visible, ok := flag.(cli.VisibleFlag); ok && !visible.IsVisible() || slices.Contains(inPods, name) {
			continue
		}
		if !set[name] {
			t.Errorf("--%s: the chart does not set it", name)
		}
		delete(set, name)
	}
	for name := range set {
		t.Errorf("--%s: the chart sets it, and there is no such flag", name)
	}
}

// A namespace that enforces the pod security standard takes the pod.
func TestThePodsAreRestricted(t *testing.T) {
	t.Parallel()
	c := cluster.For(t)
	ns := c.Namespace(t)
	const enforce = "pod-security.kubernetes.io/enforce"
	restrict := []byte(`{"metadata":{"labels":{"` + enforce + `":"restricted"}}}`)
	if _, err := c.Kube.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, restrict, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	spec := into[appsv1.Deployment](t, render(t), "Deployment").Spec.Template.Spec
	spec.ServiceAccountName, spec.PriorityClassName = "default", ""
	try := func() error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "drydock-"}, Spec: spec}
		_, err := c.Kube.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if err := try(); err != nil {
		t.Error(err)
	}
	// The namespace does enforce it.
	spec.Containers[0].SecurityContext.Capabilities = nil
	if err := try(); !apierrors.IsForbidden(err) {
		t.Errorf("a pod that keeps its capabilities: %v", err)
	}
}
