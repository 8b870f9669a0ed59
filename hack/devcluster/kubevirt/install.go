package kubevirt

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	virtclient "kubevirt.io/client-go/kubevirt"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"

	"github.com/drydock-dev/drydock/hack/devcluster/state"
)

// Installer puts KubeVirt into one cluster.
type Installer struct {
	dir        state.Dir
	verbosity  uint
	manifests  *manifests
	certs      *certificates
	kube       kubernetes.Interface
	extensions extclient.Interface
	aggregator aggregator.Interface
	virt       virtclient.Interface
}

// Prepare generates all objects and certificates; nothing of it needs a cluster,
// so it can be done while one boots.
func Prepare(dir state.Dir, verbosity uint) (*Installer, error) {
	m, err := newManifests(verbosity)
	if err != nil {
		return nil, err
	}
	certs, err := newCertificates(m.CertificateSecrets(), filepath.Join(dir.Run(), "kubevirt"))
	if err != nil {
		return nil, err
	}
	return &Installer{dir: dir, verbosity: verbosity, manifests: m, certs: certs}, nil
}

// Install creates everything that virt-api and virt-controller need to start.
func (i *Installer) Install(ctx context.Context, admin *rest.Config) error {
	if err := i.connect(admin); err != nil {
		return err
	}
	crds := slices.Concat([]*extv1.CustomResourceDefinition{i.manifests.ownCRD}, i.manifests.CRDs())
	if err := create(ctx, i.extensions.ApiextensionsV1().CustomResourceDefinitions(), crds); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := Established(ctx, i.kube, crds); err != nil {
			return err
		}
		return i.createKubeVirt(ctx)
	})
	group.Go(func() error { return i.createAccess(ctx) })
	group.Go(func() error { return i.createTrust(ctx) })
	return group.Wait()
}

func (i *Installer) connect(admin *rest.Config) error {
	var err error
	if i.kube, err = kubernetes.NewForConfig(admin); err != nil {
		return fmt.Errorf("building a Kubernetes client: %w", err)
	}
	if i.extensions, err = extclient.NewForConfig(admin); err != nil {
		return fmt.Errorf("building a CRD client: %w", err)
	}
	if i.aggregator, err = aggregator.NewForConfig(admin); err != nil {
		return fmt.Errorf("building an APIService client: %w", err)
	}
	if i.virt, err = virtclient.NewForConfig(admin); err != nil {
		return fmt.Errorf("building a KubeVirt client: %w", err)
	}
	return nil
}

func (i *Installer) createKubeVirt(ctx context.Context) error {
	kubevirts := i.virt.KubevirtV1().KubeVirts(Namespace)
	object, err := kubevirts.Create(ctx, i.manifests.object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the KubeVirt object: %w", err)
	}
	if err := i.manifests.setDeployed(object); err != nil {
		return err
	}
	if _, err := kubevirts.UpdateStatus(ctx, object, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("setting the KubeVirt object's status: %w", err)
	}
	return nil
}

func (i *Installer) createAccess(ctx context.Context) error {
	rbac, m := i.kube.RbacV1(), i.manifests
	return firstError(
		func() error { return create(ctx, i.kube.CoreV1().ServiceAccounts(Namespace), m.ServiceAccounts()) },
		func() error { return create(ctx, rbac.ClusterRoles(), m.ClusterRoles()) },
		func() error { return create(ctx, rbac.ClusterRoleBindings(), m.ClusterRoleBindings()) },
		func() error { return create(ctx, rbac.Roles(Namespace), m.Roles()) },
		func() error { return create(ctx, rbac.RoleBindings(Namespace), m.RoleBindings()) },
	)
}

func (i *Installer) createTrust(ctx context.Context) error {
	core, admission, m := i.kube.CoreV1(), i.kube.AdmissionregistrationV1(), i.manifests
	return firstError(
		func() error { return create(ctx, core.Secrets(Namespace), i.certs.secrets) },
		func() error { return create(ctx, core.ConfigMaps(Namespace), i.certs.fill(m.ConfigMaps())) },
		func() error { return create(ctx, core.Services(Namespace), local(m.Services())) },
		func() error {
			return create(ctx, i.kube.SchedulingV1().PriorityClasses(), []*schedulingv1.PriorityClass{m.priority})
		},
		func() error {
			return create(ctx, admission.ValidatingAdmissionPolicies(), m.ValidatingAdmissionPolicies())
		},
		func() error {
			return create(ctx, admission.ValidatingAdmissionPolicyBindings(), m.ValidatingAdmissionPolicyBindings())
		},
		// virt-handler's: its pods exist on every host, as a drain expects them.
		func() error { return create(ctx, i.kube.AppsV1().DaemonSets(Namespace), m.DaemonSets()) },
	)
}

// Register makes the apiserver send requests to virt-api, which must listen by then.
func (i *Installer) Register(ctx context.Context, port int) error {
	m, admission := i.manifests, i.kube.AdmissionregistrationV1()
	port32 := int32(port)
	mutating, validating := m.MutatingWebhookConfigurations(), virtAPIsOwn(m.ValidatingWebhookConfigurations())
	for _, configuration := range mutating {
		for w := range configuration.Webhooks {
			i.lead(&configuration.Webhooks[w].ClientConfig, &port32)
		}
	}
	for _, configuration := range validating {
		for w := range configuration.Webhooks {
			i.lead(&configuration.Webhooks[w].ClientConfig, &port32)
		}
	}
	for _, service := range m.APIServices() {
		service.Spec.Service.Port = &port32
		service.Spec.CABundle = i.certs.caBundle()
	}
	return firstError(
		func() error { return create(ctx, i.aggregator.ApiregistrationV1().APIServices(), m.APIServices()) },
		func() error { return create(ctx, admission.MutatingWebhookConfigurations(), mutating) },
		func() error { return create(ctx, admission.ValidatingWebhookConfigurations(), validating) },
	)
}

// lead points a webhook at the local virt-api.
func (i *Installer) lead(client *admissionv1.WebhookClientConfig, port *int32) {
	client.Service.Port = port
	client.CABundle = i.certs.caBundle()
}

// virtAPIsOwn leaves out the webhooks of virt-operator, which does not run.
func virtAPIsOwn(all []*admissionv1.ValidatingWebhookConfiguration) []*admissionv1.ValidatingWebhookConfiguration {
	operators := components.NewOpertorValidatingWebhookConfiguration(Namespace).Name
	return slices.DeleteFunc(slices.Clone(all), func(c *admissionv1.ValidatingWebhookConfiguration) bool {
		return c.Name == operators
	})
}

// servingTimeout is far beyond what it takes: virt-api listens already.
const servingTimeout = time.Minute

// Serving waits until virt-api answers through the apiserver.
func (i *Installer) Serving(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, servingTimeout, true, func(ctx context.Context) (bool, error) {
		last = i.kube.Discovery().RESTClient().Get().AbsPath("/apis/subresources.kubevirt.io/v1/healthz").Do(ctx).Error()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("virt-api does not answer through the apiserver (%w): %w", err, last)
	}
	return nil
}

// tokenSeconds is how long a component's token is valid: it cannot be renewed.
const tokenSeconds = int64(365 * 24 * 60 * 60)

// Token asks for a token of one of KubeVirt's service accounts.
func (i *Installer) Token(ctx context.Context, account string) (string, error) {
	seconds := tokenSeconds
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := i.kube.CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of %s: %w", account, err)
	}
	return answer.Status.Token, nil
}

// NewNamespace is KubeVirt's: its launchers are privileged.
func NewNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   Namespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"},
	}}
}

type creator[T any] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
}

type named interface{ GetName() string }

func create[T named](ctx context.Context, client creator[T], objects []T) error {
	for _, object := range objects {
		_, err := client.Create(ctx, object, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

func firstError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
