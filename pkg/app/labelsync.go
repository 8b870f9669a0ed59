package app

import (
	"context"
	"fmt"

	"github.com/rancher/lasso/pkg/cache"
	"github.com/rancher/lasso/pkg/controller"
	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	kubevirtclient "kubevirt.io/client-go/kubevirt/typed/core/v1"

	"github.com/drydock-dev/drydock/pkg/controllers/labelsync"
	kubevirtcontrollers "github.com/drydock-dev/drydock/pkg/generated/controllers/kubevirt.io"
	"github.com/drydock-dev/drydock/pkg/kubevirt"
)

func labelFlags(o *Options) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "label-sync", Sources: cli.EnvVars("DRYDOCK_LABEL_SYNC"), Destination: &o.LabelSync, Value: true, Usage: "copy labels of running VMs to VMI and launcher pod when they change"},
		&cli.StringSliceFlag{Name: "label-sync-keys", Sources: cli.EnvVars("DRYDOCK_LABEL_SYNC_KEYS"), Destination: &o.LabelSyncKeys, Usage: "comma-separated `KEYS` of labels that are copied from VM to VMI beside the strategy"},
		&cli.StringFlag{Name: "label-sync-prefix", Sources: cli.EnvVars("DRYDOCK_LABEL_SYNC_PREFIX"), Destination: &o.LabelSyncPrefix, Value: labelsync.DefaultPrefix, Usage: "`PREFIX` of the labels that are copied from VMI to launcher pod"},
	}
}

func (o *Options) validateLabels() error {
	if _, err := labelsync.Keys(o.LabelSyncKeys); err != nil {
		return fmt.Errorf("--label-sync-keys: %w", err)
	}
	if err := labelsync.CheckPrefix(o.LabelSyncPrefix); err != nil {
		return fmt.Errorf("--label-sync-prefix: %w", err)
	}
	return nil
}

// labelWorkers is how many VMs, and how many VMIs, are written at once. A write waits for
// KubeVirt's webhooks most of its time, and somebody who labels many VMs sends that many.
const labelWorkers = 20

// labelSync builds the controllers that copy labels; start must be called when the
// caches that they share with all others are filled. They have queues of their own, see
// the package, and clients of their own: when somebody labels thousands of VMs, a drain
// does not wait behind that.
func (m *manager) labelSync(ctx context.Context, caches cache.SharedCacheFactory, reader *kubevirt.Reader, launchers toolscache.SharedIndexInformer) (labels []actor, start func() error, err error) {
	if !m.options.LabelSync {
		return nil, func() error { return nil }, nil
	}
	settings, err := labelsync.NewSettings(m.options.LabelSyncKeys, m.options.LabelSyncPrefix)
	if err != nil {
		return nil, nil, fmt.Errorf("label sync: %w", err)
	}
	kube, err := kubernetes.NewForConfig(m.config)
	if err != nil {
		return nil, nil, fmt.Errorf("client: %w", err)
	}
	virt, err := kubevirtclient.NewForConfig(m.config)
	if err != nil {
		return nil, nil, fmt.Errorf("KubeVirt client: %w", err)
	}
	queues := controller.NewSharedControllerFactory(caches, nil)
	factory, err := kubevirtcontrollers.NewFactoryFromConfigWithOptions(m.config, &generic.FactoryOptions{SharedControllerFactory: queues})
	if err != nil {
		return nil, nil, fmt.Errorf("KubeVirt controllers: %w", err)
	}
	kv := factory.Kubevirt().V1()
	c := &labelsync.Controller{
		Settings: settings, VMs: kv.VirtualMachine(), VMIs: kv.VirtualMachineInstance(), Launchers: reader, Log: logrus.StandardLogger(),
		PatchVMI: func(ctx context.Context, namespace, name string, body []byte) error {
			_, err := virt.VirtualMachineInstances(namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
			m.metrics.LabelWritten("VirtualMachineInstance", err)
			return err
		},
		PatchPod: func(ctx context.Context, namespace, name string, body []byte) error {
			_, err := kube.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
			m.metrics.LabelWritten("Pod", err)
			return err
		},
	}
	if err := c.Watch(kv.VirtualMachineInstance().Informer(), launchers); err != nil {
		return nil, nil, err
	}
	c.Register(ctx)
	return []actor{c}, func() error { return queues.Start(ctx, labelWorkers) }, nil
}
