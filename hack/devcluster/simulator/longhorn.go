package simulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	virtv1 "kubevirt.io/api/core/v1"
)

const (
	longhornNamespace = "longhorn-system"
	longhornDriver    = "driver.longhorn.io"

	indexPVsByHandle      = "pvs-by-handle"
	indexPodsByClaim      = "pods-by-claim"
	indexReplicasByVolume = "replicas-by-volume"
)

func longhornResource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "longhorn.io", Version: "v1beta2", Resource: name}
}

// Longhorn makes volumes follow the pods that use them. Its objects are handled
// without their Go types: those write every field, and the CRDs refuse many of
// them empty.
type longhorn struct {
	client     dynamic.Interface
	registry   *registry
	complaints *complaints
	log        *slog.Logger

	pods, nodes, vmis, claims, pvs     cache.SharedIndexInformer
	volumes, engines, replicas, lhNode cache.SharedIndexInformer
	factory                            dynamicinformer.DynamicSharedInformerFactory

	volumeLoop *loop
	nodeLoop   *loop
}

func newLonghorn(client dynamic.Interface, core informers.SharedInformerFactory) (*longhorn, error) {
	l := &longhorn{client: client}
	l.factory = dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, longhornNamespace, nil)
	l.volumes = l.factory.ForResource(longhornResource("volumes")).Informer()
	l.engines = l.factory.ForResource(longhornResource("engines")).Informer()
	l.replicas = l.factory.ForResource(longhornResource("replicas")).Informer()
	l.lhNode = l.factory.ForResource(longhornResource("nodes")).Informer()
	l.claims = core.Core().V1().PersistentVolumeClaims().Informer()
	l.pvs = core.Core().V1().PersistentVolumes().Informer()
	l.pods = core.Core().V1().Pods().Informer()
	l.nodes = core.Core().V1().Nodes().Informer()
	err := errors.Join(
		l.pvs.AddIndexers(cache.Indexers{indexPVsByHandle: func(object any) ([]string, error) {
			if pv, ok := object.(*corev1.PersistentVolume); ok {
				return handleOf(pv), nil
			}
			return nil, nil
		}}),
		l.pods.AddIndexers(cache.Indexers{indexPodsByClaim: func(object any) ([]string, error) {
			if pod, ok := object.(*corev1.Pod); ok {
				return claimsOf(pod), nil
			}
			return nil, nil
		}}),
		l.replicas.AddIndexers(cache.Indexers{indexReplicasByVolume: func(object any) ([]string, error) {
			if replica, ok := object.(*unstructured.Unstructured); ok {
				if volume, _, _ := unstructured.NestedString(replica.Object, "spec", "volumeName"); volume != "" {
					return []string{volume}, nil
				}
			}
			return nil, nil
		}}),
	)
	for _, informer := range []cache.SharedIndexInformer{l.volumes, l.engines, l.replicas, l.lhNode} {
		err = errors.Join(err, informer.SetTransform(withoutUnstructuredManagedFields))
	}
	if err != nil {
		return nil, fmt.Errorf("prepare Longhorn's informers: %w", err)
	}
	return l, nil
}

func withoutUnstructuredManagedFields(object any) (any, error) {
	if content, ok := object.(*unstructured.Unstructured); ok {
		content.SetManagedFields(nil)
	}
	return object, nil
}

// handleOf returns the Longhorn volume of a PV, if it has one.
func handleOf(pv *corev1.PersistentVolume) []string {
	if pv.Spec.CSI != nil && pv.Spec.CSI.Driver == longhornDriver {
		return []string{pv.Spec.CSI.VolumeHandle}
	}
	return nil
}

func claimsOf(pod *corev1.Pod) []string {
	var keys []string
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			keys = append(keys, pod.Namespace+"/"+volume.PersistentVolumeClaim.ClaimName)
		}
	}
	return keys
}

// subscribe says which change concerns which volume.
func (l *longhorn) subscribe() error {
	name := func(object *unstructured.Unstructured) { l.volumeLoop.queue.Add(object.GetName()) }
	ofVolume := func(object *unstructured.Unstructured) {
		if volume, _, _ := unstructured.NestedString(object.Object, "spec", "volumeName"); volume != "" {
			l.volumeLoop.queue.Add(volume)
		}
	}
	pod := func(pod *corev1.Pod) { l.claimsChanged(claimsOf(pod)) }
	pv := func(pv *corev1.PersistentVolume) {
		for _, handle := range handleOf(pv) {
			l.volumeLoop.queue.Add(handle)
		}
	}
	claim := func(claim *corev1.PersistentVolumeClaim) {
		l.claimsChanged([]string{claim.Namespace + "/" + claim.Name})
	}
	node := func(node *corev1.Node) { l.nodeLoop.queue.Add(node.Name) }
	lhNode := func(node *unstructured.Unstructured) { l.nodeLoop.queue.Add(node.GetName()) }

	var failed error
	for _, subscription := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{l.volumes, handlerFor(name, name)},
		{l.engines, handlerFor(ofVolume, ofVolume)},
		{l.replicas, handlerFor(ofVolume, ofVolume)},
		{l.pods, handlerFor(pod, pod)},
		{l.pvs, handlerFor(pv, pv)},
		{l.claims, handlerFor(claim, claim)},
		{l.vmis, handlerFor(l.vmiChanged, l.vmiChanged)},
		{l.nodes, handlerFor(node, node)},
		{l.lhNode, handlerFor(lhNode, lhNode)},
	} {
		_, err := subscription.informer.AddEventHandler(subscription.handler)
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		return fmt.Errorf("subscribe to what concerns volumes: %w", failed)
	}
	return nil
}

func (l *longhorn) claimsChanged(keys []string) {
	for _, key := range keys {
		object, exists, err := l.claims.GetIndexer().GetByKey(key)
		if err != nil || !exists {
			continue
		}
		pv, exists, err := l.pvs.GetIndexer().GetByKey(object.(*corev1.PersistentVolumeClaim).Spec.VolumeName)
		if err != nil || !exists {
			continue
		}
		for _, handle := range handleOf(pv.(*corev1.PersistentVolume)) {
			l.volumeLoop.queue.Add(handle)
		}
	}
}

// vmiChanged: a migration moves a VM's volumes without any pod changing.
func (l *longhorn) vmiChanged(vmi *virtv1.VirtualMachineInstance) {
	var keys []string
	for _, volume := range vmi.Spec.Volumes {
		switch {
		case volume.PersistentVolumeClaim != nil:
			keys = append(keys, vmi.Namespace+"/"+volume.PersistentVolumeClaim.ClaimName)
		case volume.DataVolume != nil:
			keys = append(keys, vmi.Namespace+"/"+volume.DataVolume.Name)
		}
	}
	l.claimsChanged(keys)
}

// hostSwitched: power concerns every volume with a replica or an engine there.
// That is rare enough to look at all of them.
func (l *longhorn) hostSwitched(name string) {
	l.nodeLoop.queue.Add(name)
	for _, key := range l.volumes.GetIndexer().ListKeys() {
		l.volumeLoop.queue.Add(strings.TrimPrefix(key, longhornNamespace+"/"))
	}
}

func (l *longhorn) synced(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(), l.volumes.HasSynced, l.engines.HasSynced, l.replicas.HasSynced,
		l.lhNode.HasSynced, l.claims.HasSynced, l.pvs.HasSynced)
}

func cached(informer cache.SharedIndexInformer, name string) *unstructured.Unstructured {
	object, exists, err := informer.GetIndexer().GetByKey(longhornNamespace + "/" + name)
	if err != nil || !exists {
		return nil
	}
	return object.(*unstructured.Unstructured)
}
