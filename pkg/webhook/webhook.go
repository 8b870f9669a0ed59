package webhook

import (
	"errors"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
	"github.com/drydock-dev/drydock/pkg/plan"
)

// The paths that the webhook configurations name.
const (
	PathMutateVirtualMachines   = "/mutate/virtualmachines"
	PathValidateVirtualMachines = "/validate/virtualmachines"
	PathMutateLaunchers         = "/mutate/launchers"
	PathMutateNodes             = "/mutate/nodes"
	PathValidateNodes           = "/validate/nodes"
)

// Roster observes a node and its neighbours from caches: enough for the rules about
// nodes, nothing about VMs.
type Roster interface {
	Roster(node *corev1.Node) (*plan.Snapshot, error)
}

// Nodes finds a node in a cache.
type Nodes interface {
	Get(name string) (*corev1.Node, error)
}

// Options are what the webhooks stand on.
type Options struct {
	Roster Roster
	Nodes  Nodes
	// Homes knows which VMs are to come back to their own node.
	Homes *Homes
	// Words are the annotations that ask. When they are not Harvester's, new requests in
	// Harvester's words are renamed.
	Words maintenance.Vocabulary
	// Account is the user name under which Drydock itself writes.
	Account string
	// VirtController reports the user name of KubeVirt's controller.
	VirtController func(username string) bool
	Log            logrus.FieldLogger
}

// New returns the handler of all webhooks.
func New(o Options) http.Handler {
	noise := &rate.Sometimes{First: 5, Interval: time.Minute}
	mux := http.NewServeMux()
	for path, rule := range map[string]rule{
		PathMutateVirtualMachines:   machineMutator{virtController: o.VirtController}.review,
		PathValidateVirtualMachines: validateMachine,
		PathMutateLaunchers:         launcherMutator{homes: o.Homes, nodes: o.Nodes}.review,
		PathMutateNodes:             nodeMutator{words: o.Words, account: o.Account}.review,
		PathValidateNodes:           nodeValidator{words: o.Words, roster: o.Roster}.review,
	} {
		mux.Handle("POST "+path, &endpoint{rule: rule, log: o.Log.WithField("webhook", path), noise: noise})
	}
	return mux
}

// rule decides about one request; an error refuses it as unreadable.
type rule func(*admissionv1.AdmissionRequest) (verdict, error)

// endpoint is one webhook.
type endpoint struct {
	rule rule
	log  logrus.FieldLogger
	// noise lets through a few lines a minute about what is not the API server's, or
	// broken: whoever can reach the port must not be able to fill the log.
	noise *rate.Sometimes
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer e.recover(w)
	body, err := readReview(w, r)
	if err != nil {
		e.malformed(w, err)
		return
	}
	request, err := decodeReview(body)
	if err != nil {
		e.malformed(w, err)
		return
	}
	v, err := e.rule(request)
	response := answer(request, v, err)
	if err != nil {
		e.noise.Do(func() { e.log.WithError(err).Warn("a review was refused") })
	} else if !response.Allowed {
		e.log.WithFields(logrus.Fields{"namespace": request.Namespace, "name": request.Name, "user": request.UserInfo.Username}).Debug("refused: " + v.refusal)
	}
	raw, err := encodeReview(response)
	if err != nil {
		e.malformed(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(raw) // nobody is left to tell
}

func (e *endpoint) malformed(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var bad *malformed
	if errors.As(err, &bad) {
		status = bad.status
	}
	e.noise.Do(func() { e.log.WithError(err).Warn("a request was not answered") })
	http.Error(w, err.Error(), status)
}

// recover answers for a rule that panicked. net/http would log the stack of every one.
func (e *endpoint) recover(w http.ResponseWriter) {
	if problem := recover(); problem != nil {
		e.noise.Do(func() { e.log.Errorf("a review could not be decided: %v", problem) })
		http.Error(w, "the review could not be decided", http.StatusInternalServerError)
	}
}
