package cluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drydock-dev/drydock/hack/devcluster/controlplane"
	"github.com/drydock-dev/drydock/hack/devcluster/hosts"
	"github.com/drydock-dev/drydock/hack/devcluster/kubevirt"
	"github.com/drydock-dev/drydock/hack/devcluster/longhorn"
	"github.com/drydock-dev/drydock/hack/devcluster/process"
	"github.com/drydock-dev/drydock/hack/devcluster/toolchain"
)

// drydockNamespace is where the product and Harvester live.
const drydockNamespace = "harvester-system"

// boot brings everything up. The chain that decides how long it takes is
//
//	etcd → kube-apiserver → KubeVirt's CRDs → virt-api → webhooks → serving
//
// and everything else happens beside it.
func (c *cluster) boot(ctx context.Context) error {
	c.programs = findPrograms(ctx, c.Tools, c.Report)
	if err := c.configure(); err != nil {
		return err
	}
	var installer *kubevirt.Installer
	prepared := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		defer close(prepared)
		installer, err = kubevirt.Prepare(c.Dir, c.KubeVirtVerbosity)
		return err
	})
	group.Go(func() error {
		if err := c.bootAPI(ctx); err != nil {
			return err
		}
		group.Go(func() error { return c.bootControllers(ctx) })
		<-prepared
		if installer == nil {
			return nil // Prepare has said why
		}
		return c.bootKubeVirt(ctx, installer)
	})
	return group.Wait()
}

// configure decides everything that can be decided before anything runs.
func (c *cluster) configure() error {
	if err := controlplane.WriteAuditPolicy(c.Dir.AuditPolicy(), c.AuditUsers); err != nil {
		return err
	}
	var err error
	if c.identity, err = controlplane.NewIdentity(c.Dir.PKI()); err != nil {
		return err
	}
	c.config = controlplane.Config{Dir: c.Dir, Identity: c.identity, Verbosity: c.KubernetesVerbosity}
	for _, port := range []*int{
		&c.config.EtcdPort, &c.config.EtcdPeerPort, &c.config.APIServerPort,
		&c.config.ControllerManagerPort, &c.config.SchedulerPort,
	} {
		if *port, err = c.ports.Take(); err != nil {
			return err
		}
	}
	server := c.config.Server()
	if c.admin, err = c.identity.Admin(server); err != nil {
		return err
	}
	if err := controlplane.WriteKubeconfig(c.admin, "admin", c.Dir.Kubeconfig()); err != nil {
		return err
	}
	if c.kube, err = kubernetes.NewForConfig(c.admin); err != nil {
		return fmt.Errorf("building a Kubernetes client: %w", err)
	}
	c.mu.Lock()
	c.info.Server = server
	c.mu.Unlock()
	c.publish()
	return nil
}

// bootAPI brings up etcd and the apiserver.
func (c *cluster) bootAPI(ctx context.Context) error {
	program, err := c.programs.get(ctx, toolchain.Etcd)
	if err != nil {
		return err
	}
	if _, err := c.supervisor.start(c.config.Etcd(program)); err != nil {
		return err
	}
	if program, err = c.programs.get(ctx, toolchain.APIServer); err != nil {
		return err
	}
	// etcd needs no wait: it listens before the apiserver has read its flags.
	return c.bring(ctx, c.config.APIServer(program), c.supervisor.start, c.config.APIServerReady())
}

// bootControllers brings up the controller manager and the scheduler.
func (c *cluster) bootControllers(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		program, err := c.programs.get(ctx, toolchain.ControllerManager)
		if err != nil {
			return err
		}
		spec, err := c.config.ControllerManager(program)
		if err != nil {
			return err
		}
		return c.bring(ctx, spec, c.supervisor.start, c.config.ControllerManagerReady())
	})
	group.Go(func() error {
		program, err := c.programs.get(ctx, toolchain.Scheduler)
		if err != nil {
			return err
		}
		spec, err := c.config.Scheduler(program)
		if err != nil {
			return err
		}
		return c.bring(ctx, spec, c.supervisor.start, c.config.SchedulerReady())
	})
	return group.Wait()
}

// bootKubeVirt installs KubeVirt and Longhorn's CRDs, and brings up virt-api,
// virt-controller and the hosts.
func (c *cluster) bootKubeVirt(ctx context.Context, installer *kubevirt.Installer) error {
	if err := c.createNamespaces(ctx); err != nil {
		return err
	}
	crds := make(chan error, 1)
	go func() {
		crds <- c.Report.Step("Longhorn CRDs installed", func() error { return c.installLonghorn(ctx) })
	}()
	err := c.Report.Step("KubeVirt's CRDs and objects installed", func() error { return installer.Install(ctx, c.admin) })
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.bootVirtAPI(ctx, installer) })
	group.Go(func() error { return c.bootVirtController(ctx, installer) })
	group.Go(func() error {
		// The simulator watches Longhorn's kinds, too.
		if err := <-crds; err != nil {
			return err
		}
		return c.bootHosts(ctx, installer)
	})
	return group.Wait()
}

func (c *cluster) createNamespaces(ctx context.Context) error {
	for _, namespace := range []*corev1.Namespace{
		kubevirt.NewNamespace(),
		{ObjectMeta: metav1.ObjectMeta{Name: drydockNamespace}},
		{ObjectMeta: metav1.ObjectMeta{Name: longhorn.Namespace}},
	} {
		if _, err := c.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the namespace %s: %w", namespace.Name, err)
		}
	}
	return nil
}

func (c *cluster) installLonghorn(ctx context.Context) error {
	dir, err := c.Tools.ModuleDir(ctx, toolchain.KubeVirt, longhorn.Module)
	if err != nil {
		return err
	}
	crds, err := longhorn.CRDs(dir)
	if err != nil {
		return err
	}
	if err := longhorn.Install(ctx, c.admin, crds); err != nil {
		return err
	}
	return kubevirt.Established(ctx, c.kube, crds)
}

func (c *cluster) bootVirtAPI(ctx context.Context, installer *kubevirt.Installer) error {
	program, err := c.programs.get(ctx, toolchain.VirtAPI)
	if err != nil {
		return err
	}
	token, err := installer.Token(ctx, kubevirt.APIAccount)
	if err != nil {
		return err
	}
	port, err := c.ports.Take()
	if err != nil {
		return err
	}
	spec, err := installer.VirtAPI(program, c.identity.CA.TokenConfig(c.config.Server(), token), port)
	if err != nil {
		return err
	}
	if err := c.bring(ctx, spec, c.supervisor.startRestarting, installer.VirtAPIListening(port)); err != nil {
		return err
	}
	return c.Report.Step("KubeVirt's webhooks and APIServices serve", func() error {
		if err := installer.Register(ctx, port); err != nil {
			return err
		}
		return installer.Serving(ctx)
	})
}

func (c *cluster) bootVirtController(ctx context.Context, installer *kubevirt.Installer) error {
	program, err := c.programs.get(ctx, toolchain.VirtController)
	if err != nil {
		return err
	}
	token, err := installer.Token(ctx, kubevirt.ControllerAccount)
	if err != nil {
		return err
	}
	port, err := c.ports.Take()
	if err != nil {
		return err
	}
	spec, err := installer.VirtController(program, c.identity.CA.TokenConfig(c.config.Server(), token), port)
	if err != nil {
		return err
	}
	return c.bring(ctx, spec, c.supervisor.startRestarting, installer.VirtControllerLeads(port))
}

func (c *cluster) bootHosts(ctx context.Context, installer *kubevirt.Installer) error {
	nodes := c.Hosts.Nodes()
	return c.Report.Step(fmt.Sprintf("%d hosts ready", len(nodes)), func() error {
		token, err := installer.Token(ctx, kubevirt.HandlerAccount)
		if err != nil {
			return err
		}
		if err := hosts.Create(ctx, c.kube, nodes); err != nil {
			return err
		}
		if err := c.startInProcess(c.lifetime, c.identity.CA.TokenConfig(c.config.Server(), token)); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, bootTimeout)
		defer cancel()
		return hosts.AwaitReady(ctx, c.kube)
	})
}

// bring starts a component and waits until it is ready.
func (c *cluster) bring(
	ctx context.Context,
	spec process.Spec,
	start func(process.Spec) (*process.Process, error),
	ready func(context.Context) error,
) error {
	return c.Report.Step(spec.Name+" ready", func() error {
		p, err := start(spec)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, bootTimeout)
		defer cancel()
		return p.Await(ctx, ready)
	})
}
