package serving

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/tests/cluster"
	"github.com/drydock-dev/drydock/tests/webhooks"
)

// nobody is a port at which nobody listens.
const nobody = 1

// The table of docs/webhooks.md: what a cluster can do while no replica answers.
func TestWhatWorksWhileNobodyAnswers(t *testing.T) {
	for _, policy := range []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore} {
		t.Run(string(policy), func(t *testing.T) {
			c := clean(t)
			s := silent{c: c, ns: c.Namespace(t), pool: c.Pool(t, 1)}
			s.store(t)
			target := webhooks.Target{Name: webhooks.Name, Namespace: namespace, Service: "drydock-webhook", Port: nobody, Policy: policy}
			webhooks.Install(t, c, target)
			s.known(t, policy)
			for _, row := range s.rows() {
				t.Run(row.name, func(t *testing.T) {
					err := row.write(t.Context())
					refused := row.needed && policy == admissionv1.Fail
					if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "failed calling webhook") {
						t.Errorf("the answer is %v, expected to be refused: %v", err, refused)
					}
				})
			}
			s.counted(t, policy)
		})
	}
}

// counted checks that the API server counts the calls that failed, by the names that the
// alert DrydockWebhookNotReached asks for.
func (s *silent) counted(t *testing.T, policy admissionv1.FailurePolicyType) {
	t.Helper()
	page, err := s.c.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`(?m)^apiserver_admission_webhook_fail_open_count\{name="nodes\.mutate\.drydock\.dev",type="admit"\} [1-9]`)
	if policy == admissionv1.Fail {
		want = regexp.MustCompile(`(?m)^apiserver_admission_webhook_rejection_count\{error_type="calling_webhook_error",name="nodes\.mutate\.drydock\.dev",operation="UPDATE",rejection_code="[0-9]+",type="admit"\} [1-9]`)
	}
	if !want.Match(page) {
		t.Errorf("the API server's metrics have no line %s", want)
	}
}

// silent is a cluster whose webhooks do not answer.
type silent struct {
	c    *cluster.Cluster
	ns   string
	pool *cluster.Pool
}

// store makes what the rows change, before there is a webhook.
func (s *silent) store(t *testing.T) {
	t.Helper()
	complete := func(vm *virtv1.VirtualMachine) {
		vm.Spec.Template.ObjectMeta.Labels["harvesterhci.io/maintain-mode-strategy"] = "Migrate"
	}
	for _, name := range []string{"off", "going"} {
		s.c.VM(s.ns, name).Strategy("Migrate").Change(complete).RunStrategy(virtv1.RunStrategyHalted).Submit(t)
	}
	s.c.VM(s.ns, "waiting").Strategy("Migrate").Change(complete).RunStrategy(virtv1.RunStrategyHalted).
		AnnotateVM("harvesterhci.io/maintain-mode-strategy-node-name", "elsewhere").Submit(t)
	s.c.VM(s.ns, "unlabelled").RunStrategy(virtv1.RunStrategyHalted).Submit(t)
}

// known waits until the API server knows the configurations.
func (s *silent) known(t *testing.T, policy admissionv1.FailurePolicyType) {
	t.Helper()
	if policy == admissionv1.Ignore {
		return // Whether a webhook that is ignored is called yet makes no difference.
	}
	for _, write := range []func(context.Context) error{s.create("probe", metav1.DryRunAll), s.node(`{"spec":{"unschedulable":true}}`, metav1.DryRunAll)} {
		s.c.Eventually(t, "the API server calls the webhooks", func(ctx context.Context) error {
			if write(ctx) == nil {
				return errors.New("a write passed that needs a webhook")
			}
			return nil
		})
	}
}

// row is a write; needed says that the webhooks have an opinion on it.
type row struct {
	name   string
	needed bool
	write  func(context.Context) error
}

func (s *silent) rows() []row {
	return []row{
		{"a VM is created", true, s.create("new")},
		{"a VM is relabelled", true, s.vm("off", `{"metadata":{"labels":{"harvesterhci.io/maintain-mode-strategy":"Shutdown"}}}`)},
		{"a VM without the label is changed", true, s.vm("unlabelled", `{"metadata":{"annotations":{"a":"b"}}}`)},
		{"a VM that waits for its node is started", true, s.vm("waiting", `{"spec":{"runStrategy":"Manual"}}`)},
		{"a node is cordoned", true, s.node(`{"spec":{"unschedulable":true}}`)},
		{"maintenance is asked for", true, s.node(`{"metadata":{"annotations":{"harvesterhci.io/drain-requested":"true"}}}`)},
		{"force is asked for", true, s.node(`{"metadata":{"annotations":{"harvesterhci.io/drain-forced":"true"}}}`)},

		{"a VM is changed", false, s.vm("off", `{"metadata":{"annotations":{"a":"b"}},"spec":{"template":{"spec":{"terminationGracePeriodSeconds":7}}}}`)},
		{"a VM is started, and runs", false, s.start},
		{"a VM is stopped", false, s.vm("off", `{"spec":{"runStrategy":"Halted"}}`)},
		{"a VM is deleted", false, func(ctx context.Context) error {
			return s.c.KubeVirt.KubevirtV1().VirtualMachines(s.ns).Delete(ctx, "going", metav1.DeleteOptions{})
		}},
		{"a pod is created", false, s.pod},
		{"a node is uncordoned", false, s.node(`{"spec":{"unschedulable":false}}`)},
		{"a node is labelled and annotated", false, s.node(`{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"}}}`)},
		{"a node leaves maintenance", false, s.node(`{"metadata":{"annotations":{"harvesterhci.io/maintain-status":null}}}`)},
		{"a kubelet writes a node's status", false, func(ctx context.Context) error {
			patch := []byte(`{"status":{"conditions":[{"type":"Test","status":"True"}]}}`)
			_, err := s.c.Kube.CoreV1().Nodes().Patch(ctx, s.pool.Host(0), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
			return err
		}},
	}
}

func (s *silent) create(name string, dryRun ...string) func(context.Context) error {
	vm := s.c.VM(s.ns, name).RunStrategy(virtv1.RunStrategyHalted).Object()
	return func(ctx context.Context) error {
		_, err := s.c.KubeVirt.KubevirtV1().VirtualMachines(s.ns).Create(ctx, vm, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
}

func (s *silent) vm(name, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.c.KubeVirt.KubevirtV1().VirtualMachines(s.ns).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
}

func (s *silent) node(patch string, dryRun ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.c.Kube.CoreV1().Nodes().Patch(ctx, s.pool.Host(0), types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun})
		return err
	}
}

// start needs a launcher pod, whose webhook fails open.
func (s *silent) start(ctx context.Context) error {
	if err := s.vm("off", `{"spec":{"runStrategy":"Always"}}`)(ctx); err != nil {
		return err
	}
	only := metav1.SingleObject(metav1.ObjectMeta{Name: "off"})
	running, err := s.c.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ns).Watch(ctx, only)
	if err != nil {
		return err
	}
	defer running.Stop()
	for event := range running.ResultChan() {
		if vmi, ok := event.Object.(*virtv1.VirtualMachineInstance); ok && vmi.Status.Phase == virtv1.Running {
			return nil
		}
	}
	return errWaiting
}

func (s *silent) pod(ctx context.Context) error {
	_, err := s.c.Kube.CoreV1().Pods(s.ns).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "plain"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}, metav1.CreateOptions{})
	return err
}
