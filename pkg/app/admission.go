package app

import (
	"context"
	"fmt"
	"net/http"

	"github.com/sirupsen/logrus"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	toolscache "k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/gather"
	kubevirtcontrollers "github.com/drydock-dev/drydock/pkg/generated/controllers/kubevirt.io/v1"
	"github.com/drydock-dev/drydock/pkg/webhook"
)

// admission builds what answers the webhooks. It rests on the caches, so nobody may be
// sent to it before they are full.
func (m *manager) admission(ctx context.Context, gatherer *gather.Gatherer, nodes webhook.Nodes, kv kubevirtcontrollers.Interface) (http.Handler, error) {
	account, err := m.account(ctx)
	if err != nil {
		return nil, err
	}
	homes := webhook.NewHomes()
	if _, err := kv.VirtualMachine().Informer().AddEventHandler(followHomes(homes)); err != nil {
		return nil, fmt.Errorf("virtual machines: %w", err)
	}
	kubevirts := kv.KubeVirt().Cache()
	return webhook.New(webhook.Options{
		Roster: gatherer, Nodes: nodes, Homes: homes, Words: gatherer.Config.Words, Account: account,
		VirtController: func(username string) bool { return isVirtController(kubevirts, username) },
		Log:            logrus.StandardLogger(),
	}), nil
}

// account is the user name under which this process writes.
func (m *manager) account(ctx context.Context) (string, error) {
	review, err := m.kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking who this is: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// followHomes keeps an eye on the VMs that are to come back to their node.
func followHomes(homes *webhook.Homes) toolscache.ResourceEventHandler {
	observe := func(obj any) {
		if vm, ok := obj.(*kubevirtv1.VirtualMachine); ok {
			homes.Observe(vm)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    observe,
		UpdateFunc: func(_, now any) { observe(now) },
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			if vm, ok := obj.(*kubevirtv1.VirtualMachine); ok {
				homes.Gone(vm)
			}
		},
	}
}

// virtControllerAccount is the service account of virt-controller, in whichever
// namespace KubeVirt is installed.
const virtControllerAccount = "kubevirt-controller"

func isVirtController(kubevirts kubevirtcontrollers.KubeVirtCache, username string) bool {
	namespace, name, err := serviceaccount.SplitUsername(username)
	if err != nil || name != virtControllerAccount {
		return false
	}
	// An account of that name elsewhere is somebody's.
	list, err := kubevirts.List(namespace, labels.Everything())
	return err == nil && len(list) > 0
}
