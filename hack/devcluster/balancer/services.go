package balancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Annotations of a Service. Backends and Readiness are comma separated and belong
// together by position; Port is written back.
const (
	BackendsAnnotation  = "sim.drydock.dev/backends"
	ReadinessAnnotation = "sim.drydock.dev/readiness"
	PortAnnotation      = "sim.drydock.dev/port"
)

// Run serves all annotated Services until ctx ends.
func Run(ctx context.Context, kube kubernetes.Interface, log *slog.Logger) error {
	b := &services{kube: kube, log: log, frontends: map[types.NamespacedName]*Frontend{}}
	factory := informers.NewSharedInformerFactory(kube, 0)
	informer := factory.Core().V1().Services().Informer()
	// One queue, since a Service's events must not overtake one another.
	events := make(chan any)
	send := func(object any) {
		select {
		case events <- object:
		case <-ctx.Done():
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    send,
		UpdateFunc: func(_, object any) { send(object) },
		DeleteFunc: send,
	})
	if err != nil {
		return fmt.Errorf("watching Services: %w", err)
	}
	factory.Start(ctx.Done())
	defer b.close()
	for {
		select {
		case <-ctx.Done():
			factory.Shutdown()
			return nil
		case object := <-events:
			b.handle(ctx, object)
		}
	}
}

// services are the annotated Services and their ports. Only Run's loop uses it.
type services struct {
	kube      kubernetes.Interface
	log       *slog.Logger
	frontends map[types.NamespacedName]*Frontend
}

func (s *services) handle(ctx context.Context, object any) {
	key, err := cache.DeletionHandlingObjectToName(object)
	if err != nil {
		s.log.Error("balancer got an object that is none", "error", err)
		return
	}
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
	service, ok := object.(*corev1.Service)
	if !ok { // a tombstone
		s.drop(name)
		return
	}
	err = s.sync(ctx, name, service)
	for attempt := 0; err != nil && ctx.Err() == nil && attempt < 3; attempt++ {
		time.Sleep(200 * time.Millisecond)
		err = s.sync(ctx, name, service)
	}
	if err != nil {
		s.log.Error("balancer cannot serve a Service", "service", name, "error", err)
	}
}

func (s *services) sync(ctx context.Context, name types.NamespacedName, service *corev1.Service) error {
	annotation, wanted := service.Annotations[BackendsAnnotation]
	if !wanted || service.DeletionTimestamp != nil {
		s.drop(name)
		return nil
	}
	targets, err := Targets(annotation, service.Annotations[ReadinessAnnotation])
	if err != nil {
		return err
	}
	frontend := s.frontends[name]
	if frontend == nil {
		if frontend, err = NewFrontend(s.log); err != nil {
			return err
		}
		s.frontends[name] = frontend
		s.log.Info("balancer listens", "service", name, "port", frontend.Port())
	}
	frontend.SetTargets(targets)
	return s.point(ctx, service, frontend.Port())
}

// point makes the Service lead here, again and again if its owner applies his
// manifest anew. ExternalName is what the apiserver resolves for webhooks and
// APIServices without a network of pods.
func (s *services) point(ctx context.Context, service *corev1.Service, port int) error {
	number := strconv.Itoa(port)
	if service.Annotations[PortAnnotation] == number && service.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{PortAnnotation: number}},
		"spec":     map[string]any{"type": corev1.ServiceTypeExternalName, "externalName": "localhost"},
	})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	_, err = s.kube.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the port to the Service: %w", err)
	}
	return nil
}

func (s *services) drop(name types.NamespacedName) {
	frontend := s.frontends[name]
	if frontend == nil {
		return
	}
	delete(s.frontends, name)
	if err := frontend.Close(); err != nil {
		s.log.Error("balancer cannot close a port", "service", name, "error", err)
	}
}

func (s *services) close() {
	for name := range s.frontends {
		s.drop(name)
	}
}

// Targets reads the two annotations.
func Targets(backends, readiness string) ([]Target, error) {
	addresses, urls := list(backends), list(readiness)
	if len(urls) > 0 && len(urls) != len(addresses) {
		return nil, fmt.Errorf("%s names %d backends and %s %d URLs: %w",
			BackendsAnnotation, len(addresses), ReadinessAnnotation, len(urls), errors.New("they must be as many, or no URLs"))
	}
	targets := make([]Target, len(addresses))
	for n, address := range addresses {
		targets[n].Address = address
		if len(urls) > 0 {
			targets[n].Readiness = urls[n]
		}
	}
	return targets, nil
}

func list(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
