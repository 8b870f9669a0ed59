package api

import "k8s.io/client-go/tools/cache"

// handFed is an informer whose events the test makes.
type handFed struct {
	cache.SharedInformer
	handler cache.ResourceEventHandler
}

type registered struct {
	cache.ResourceEventHandlerRegistration
}

func (registered) HasSynced() bool { return true }

func (h *handFed) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	h.handler = handler
	return registered{}, nil
}
