package simulator

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// Annotations by which everybody recognises a static pod's mirror.
const (
	annotationConfigSource = "kubernetes.io/config.source"
	annotationConfigMirror = "kubernetes.io/config.mirror"
	annotationConfigHash   = "kubernetes.io/config.hash"
	annotationConfigSeen   = "kubernetes.io/config.seen"

	labelControlPlane = "node-role.kubernetes.io/control-plane"
)

// Mirrors plays static pods. On metal their manifests are files on the host;
// here the mirror pod that was last seen is the manifest, so whoever creates a
// mirror pod on a simulated host has installed a static pod there.
type mirrors struct {
	client   kubernetes.Interface
	pods     cache.Indexer
	nodes    cache.Indexer
	registry *registry
	loop     *loop

	mu        sync.Mutex
	manifests map[string]map[string]*corev1.Pod // host → namespace/name → manifest
}

func isMirror(pod *corev1.Pod) bool {
	_, set := pod.Annotations[annotationConfigMirror]
	return set
}

// saw remembers the manifest of a mirror pod on an adopted host.
func (m *mirrors) saw(pod *corev1.Pod) {
	if !isMirror(pod) || pod.DeletionTimestamp != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.manifests == nil {
		m.manifests = map[string]map[string]*corev1.Pod{}
	}
	if m.manifests[pod.Spec.NodeName] == nil {
		m.manifests[pod.Spec.NodeName] = map[string]*corev1.Pod{}
	}
	m.manifests[pod.Spec.NodeName][pod.Namespace+"/"+pod.Name] = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels, Annotations: pod.Annotations,
			OwnerReferences: pod.OwnerReferences,
		},
		Spec: pod.Spec,
	}
}

func (m *mirrors) forget(host string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.manifests, host)
}

func (m *mirrors) on(host string) []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	var manifests []*corev1.Pod
	for _, manifest := range m.manifests[host] {
		manifests = append(manifests, manifest)
	}
	return manifests
}

// reconcile creates the mirror pods that a host lacks.
func (m *mirrors) reconcile(ctx context.Context, name string) (time.Duration, error) {
	current, on := m.registry.powered(name)
	if !on {
		return 0, nil
	}
	object, exists, err := m.nodes.GetByKey(name)
	if err != nil || !exists {
		return 0, err
	}
	wanted := m.on(name)
	if _, isControlPlane := object.(*corev1.Node).Labels[labelControlPlane]; isControlPlane {
		wanted = append(wanted, controlPlaneManifest(current))
	}
	for _, manifest := range wanted {
		if _, exists, err := m.pods.GetByKey(manifest.Namespace + "/" + manifest.Name); err != nil || exists {
			continue
		}
		_, err := m.client.CoreV1().Pods(manifest.Namespace).Create(ctx, manifest.DeepCopy(), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return 0, fmt.Errorf("create mirror pod %s/%s: %w", manifest.Namespace, manifest.Name, err)
		}
	}
	return 0, nil
}

// controlPlaneManifest is the one static pod that every control-plane host has,
// so that a drain always meets one.
func controlPlaneManifest(on host) *corev1.Pod {
	const prefix = "kube-apiserver-"
	name := prefix + on.name
	if len(name) > 253 {
		name = prefix + digest(on.name)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: name,
			Labels: map[string]string{"component": "kube-apiserver", "tier": "control-plane"},
			Annotations: map[string]string{
				annotationConfigSource: "file",
				annotationConfigHash:   digest(name)[:32],
				annotationConfigMirror: digest(name)[:32],
				annotationConfigSeen:   time.Now().UTC().Format(time.RFC3339Nano),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node", Name: on.name, UID: on.uid, Controller: ptr.To(true),
			}},
		},
		Spec: corev1.PodSpec{
			NodeName: on.name, HostNetwork: true, PriorityClassName: "system-node-critical",
			Containers:  []corev1.Container{{Name: "kube-apiserver", Image: "registry.k8s.io/kube-apiserver:" + kubeletVersion}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
		},
	}
}
