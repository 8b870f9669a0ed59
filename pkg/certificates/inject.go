package certificates

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// target is a webhook configuration to keep the bundle in.
type target struct {
	configuration
	kind     string
	uid      types.UID
	version  string
	webhooks []string
	patch    func(ctx context.Context, name string, patch []byte) error
}

func (t *target) add(name string, bundle []byte) {
	t.webhooks, t.bundles = append(t.webhooks, name), append(t.bundles, bundle)
}

// targets are the configurations that exist.
func (k *Keeper) targets() ([]*target, error) {
	if k.mutating == nil {
		return nil, nil
	}
	client := k.client.AdmissionregistrationV1()
	var all []*target
	mutating, err := k.mutating.Get(k.options.Configuration)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the MutatingWebhookConfiguration: %w", err)
	}
	if err == nil {
		t := &target{kind: "MutatingWebhookConfiguration", uid: mutating.UID, version: mutating.ResourceVersion, patch: func(ctx context.Context, name string, patch []byte) error {
			_, err := client.MutatingWebhookConfigurations().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		}}
		for i := range mutating.Webhooks {
			t.add(mutating.Webhooks[i].Name, mutating.Webhooks[i].ClientConfig.CABundle)
		}
		all = append(all, t)
	}
	validating, err := k.validating.Get(k.options.Configuration)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the ValidatingWebhookConfiguration: %w", err)
	}
	if err == nil {
		t := &target{kind: "ValidatingWebhookConfiguration", uid: validating.UID, version: validating.ResourceVersion, patch: func(ctx context.Context, name string, patch []byte) error {
			_, err := client.ValidatingWebhookConfigurations().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		}}
		for i := range validating.Webhooks {
			t.add(validating.Webhooks[i].Name, validating.Webhooks[i].ClientConfig.CABundle)
		}
		all = append(all, t)
	}
	return all, nil
}

// inject makes the configurations trust what the Secret's bundle says.
func (k *Keeper) inject(ctx context.Context, secret *corev1.Secret, targets []*target) error {
	bundle, checked := secret.Data[keyBundle], false
	for _, t := range targets {
		if t.has(bundle) {
			continue
		}
		if !checked {
			// The Secret and the configurations come by different watches. Who sees a
			// difference with an old Secret must not undo what another replica has just
			// done with the new one.
			live, err := k.client.CoreV1().Secrets(k.options.Namespace).Get(ctx, k.options.Secret, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("reading the Secret: %w", err)
			}
			if err != nil || live.ResourceVersion != secret.ResourceVersion {
				return fmt.Errorf("%w: the Secret has changed", errRaced)
			}
			checked = true
		}
		if err := k.injectOne(ctx, t, bundle); err != nil {
			return err
		}
	}
	return nil
}

// injectOne patches the bundle alone: webhooks are merged by name, and the precondition
// makes it a conflict when anything has changed since.
func (k *Keeper) injectOne(ctx context.Context, t *target, bundle []byte) error {
	type clientConfig struct {
		CABundle []byte `json:"caBundle"`
	}
	type webhook struct {
		Name         string       `json:"name"`
		ClientConfig clientConfig `json:"clientConfig"`
	}
	type metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	}
	body := struct {
		Metadata metadata  `json:"metadata"`
		Webhooks []webhook `json:"webhooks"`
	}{Metadata: metadata{UID: t.uid, ResourceVersion: t.version}}
	for _, name := range t.webhooks {
		body.Webhooks = append(body.Webhooks, webhook{Name: name, ClientConfig: clientConfig{CABundle: bundle}})
	}
	patch, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding the patch of the %s: %w", t.kind, err)
	}
	log := k.log.WithField("configuration", k.options.Configuration).WithField("kind", t.kind)
	err = t.patch(ctx, k.options.Configuration, patch)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %s %s: %w", errRaced, t.kind, k.options.Configuration, err)
	case err != nil:
		return fmt.Errorf("patching the %s %s: %w", t.kind, k.options.Configuration, err)
	}
	log.Info("the webhook configuration trusts the CA bundle")
	return nil
}
