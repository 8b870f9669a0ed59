package harvester

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Deployment is the namespace and name of the Deployment in which Harvester's own
// controllers run. Neither its drain nor its maintain controller can be switched off.
const (
	DeploymentNamespace = "harvester-system"
	DeploymentName      = "harvester"
)

// Controllers knows whether Harvester's own controllers are to run in the cluster.
type Controllers struct{ store cache.Store }

// WatchControllers begins to watch Harvester's Deployment, and calls changed, which must
// not block, whenever the answer of [Controllers.Run] may be another. It returns once the
// answer is known. The watch ends with the context.
func WatchControllers(ctx context.Context, client kubernetes.Interface, changed func()) (*Controllers, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(DeploymentNamespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, DeploymentName).String()
		}))
	informer := factory.Apps().V1().Deployments().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	}); err != nil {
		return nil, fmt.Errorf("watch of Harvester's Deployment: %w", err)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watch of Harvester's Deployment: %w", ctx.Err())
	}
	return &Controllers{store: informer.GetStore()}, nil
}

// Run reports that the Deployment is there and asks for a replica. Whether one is ready
// does not matter: in an upgrade none may be for a moment, and they come back.
func (c *Controllers) Run() bool {
	obj, exists, err := c.store.GetByKey(DeploymentNamespace + "/" + DeploymentName)
	if err != nil || !exists {
		return false
	}
	deployment, ok := obj.(*appsv1.Deployment)
	return ok && deployment.DeletionTimestamp == nil && (deployment.Spec.Replicas == nil || *deployment.Spec.Replicas > 0)
}
