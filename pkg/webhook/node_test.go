package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

func TestARequestIsCompleted(t *testing.T) {
	for name, test := range map[string]struct {
		words           maintenance.Vocabulary
		user            string
		old, now, after string // the annotations
	}{
		"who asks is written down":           {now: `"REQUEST":"true"`, after: `"REQUEST":"true","REQUESTED_BY":"alice"`},
		"and not who is said to ask":         {now: `"REQUEST":"true","REQUESTED_BY":"bob"`, after: `"REQUEST":"true","REQUESTED_BY":"alice"`},
		"unless Drydock says so":             {user: drydock, now: `"REQUEST":"true","REQUESTED_BY":"bob"`, after: `"REQUEST":"true","REQUESTED_BY":"bob"`},
		"what asks for nothing is left":      {now: `"REQUEST":"yes"`, after: `"REQUEST":"yes"`},
		"until it asks":                      {old: `"REQUEST":"yes"`, now: `"REQUEST":"true"`, after: `"REQUEST":"true","REQUESTED_BY":"alice"`},
		"a request that was there is left":   {old: `"REQUEST":"true"`, now: `"REQUEST":"true","a":"b"`, after: `"REQUEST":"true","a":"b"`},
		"force alone is left":                {now: `"FORCE":"true"`, after: `"FORCE":"true"`},
		"beside Harvester it is renamed":     {words: maintenance.Takeover, now: `"REQUEST":"true"`, after: `"OWN_REQUEST":"true","REQUESTED_BY":"alice"`},
		"with force":                         {words: maintenance.Takeover, now: `"REQUEST":"true","FORCE":"true"`, after: `"OWN_REQUEST":"true","OWN_FORCE":"true","REQUESTED_BY":"alice"`},
		"whatever its value":                 {words: maintenance.Takeover, now: `"REQUEST":"","FORCE":"no"`, after: `"OWN_REQUEST":"","OWN_FORCE":"no"`},
		"force alone is renamed":             {words: maintenance.Takeover, old: `"a":"b"`, now: `"a":"b","FORCE":"true"`, after: `"a":"b","OWN_FORCE":"true"`},
		"over one that was there":            {words: maintenance.Takeover, old: `"OWN_REQUEST":"no"`, now: `"OWN_REQUEST":"no","REQUEST":"true"`, after: `"OWN_REQUEST":"true","REQUESTED_BY":"alice"`},
		"what Harvester serves is left":      {words: maintenance.Takeover, old: `"REQUEST":"true"`, now: `"REQUEST":"true","a":"b"`, after: `"REQUEST":"true","a":"b"`},
		"in Drydock's words it is a request": {words: maintenance.Takeover, now: `"OWN_REQUEST":"true"`, after: `"OWN_REQUEST":"true","REQUESTED_BY":"alice"`},
		"Drydock's words are none elsewhere": {now: `"OWN_REQUEST":"true"`, after: `"OWN_REQUEST":"true"`},
		"beside Harvester, through Drydock":  {words: maintenance.Takeover, user: drydock, now: `"REQUEST":"true","REQUESTED_BY":"bob"`, after: `"OWN_REQUEST":"true","REQUESTED_BY":"bob"`},
		"nothing":                            {now: `"a":"b"`, after: `"a":"b"`},
		"a request that is taken back":       {old: `"REQUEST":"true"`, now: `"a":"b"`, after: `"a":"b"`},
	} {
		t.Run(name, func(t *testing.T) {
			if test.words == (maintenance.Vocabulary{}) {
				test.words = maintenance.Plain
			}
			if test.user == "" {
				test.user = alice
			}
			node := func(annotations string) string {
				return `{"metadata":{"name":"n1","annotations":{` + words(annotations) + `}}}`
			}
			old := node(test.old)
			if test.old == "" {
				old = `{"metadata":{"name":"n1"}}`
			}
			h := handler(test.words, roster{}, NewHomes())
			got := patched(t, node(test.now), review{path: PathMutateNodes, user: test.user, old: old, now: node(test.now)}.send(t, h))
			if !sameJSON(t, got, node(test.after)) {
				t.Errorf("stored as %s, want %s", got, node(test.after))
			}
		})
	}
}

type nodeOption func(*corev1.Node)

func node(name string, options ...nodeOption) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, option := range options {
		option(n)
	}
	return n
}

func controlPlane(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "true" }
func cordoned(n *corev1.Node)     { n.Spec.Unschedulable = true }
func notReady(n *corev1.Node)     { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func annotated(pairs ...string) nodeOption {
	return func(n *corev1.Node) {
		for i := 0; i < len(pairs); i += 2 {
			n.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func TestANodeThatCannotBeSparedIsKept(t *testing.T) {
	requested, forced := annotated(maintenance.AnnotationRequested, "true"), annotated(maintenance.AnnotationForced, "true")
	renamed := annotated(maintenance.AnnotationRenamedRequested, "true")
	engaged := annotated(maintenance.AnnotationNodeRecord, (&maintenance.NodeRecord{ID: "m"}).Encode())
	harvester := annotated(maintenance.AnnotationStatus, "running")
	const last, quorum = "no other node would remain", "needed for quorum"
	for name, test := range map[string]struct {
		words   maintenance.Vocabulary
		was     []nodeOption
		becomes []nodeOption
		others  roster
		refusal string
		warns   bool
	}{
		"cordon with others":                       {becomes: []nodeOption{cordoned}, others: roster{node("n2")}},
		"cordon of the last":                       {becomes: []nodeOption{cordoned}, others: roster{node("n2", cordoned), node("n3", notReady), node("n4", engaged), node("n5", harvester)}, refusal: last},
		"cordon of the only one":                   {becomes: []nodeOption{cordoned}, others: roster{}, refusal: last},
		"cordon against quorum":                    {was: []nodeOption{controlPlane}, becomes: []nodeOption{cordoned}, others: roster{node("n2", controlPlane, engaged), node("n3", controlPlane)}},
		"cordon of the last, which is engaged":     {was: []nodeOption{engaged}, becomes: []nodeOption{cordoned}, others: roster{}},
		"cordon of the last, as Drydock writes it": {becomes: []nodeOption{cordoned, engaged}, others: roster{}},
		"cordon of a cordoned one":                 {was: []nodeOption{cordoned}, becomes: []nodeOption{annotated("a", "b")}, others: roster{}},
		"cordon of one that is not ready":          {was: []nodeOption{notReady}, becomes: []nodeOption{cordoned}, others: roster{}},
		"uncordon":                                 {was: []nodeOption{cordoned}, becomes: []nodeOption{func(n *corev1.Node) { n.Spec.Unschedulable = false }}, others: roster{}},
		"request with others":                      {becomes: []nodeOption{requested}, others: roster{node("n2")}},
		"request for the last":                     {becomes: []nodeOption{requested}, others: roster{node("n2", cordoned)}, refusal: last},
		"request against quorum":                   {was: []nodeOption{controlPlane}, becomes: []nodeOption{requested}, others: roster{node("n2", controlPlane, engaged), node("n3", controlPlane)}, refusal: quorum},
		"forced against quorum":                    {was: []nodeOption{controlPlane}, becomes: []nodeOption{requested, forced}, others: roster{node("n2", controlPlane, engaged), node("n3", controlPlane)}, refusal: quorum},
		"forced for the last":                      {becomes: []nodeOption{requested, forced}, others: roster{}, refusal: last},
		"request of one that is engaged":           {was: []nodeOption{engaged}, becomes: []nodeOption{requested}, others: roster{}},
		"a request that asks for nothing":          {becomes: []nodeOption{annotated(maintenance.AnnotationRequested, "no")}, others: roster{}},
		"a request that was there":                 {was: []nodeOption{requested}, becomes: []nodeOption{requested, annotated("a", "b")}, others: roster{}},
		"a request and a cordon":                   {was: []nodeOption{controlPlane}, becomes: []nodeOption{requested, cordoned}, others: roster{node("n2", controlPlane, engaged), node("n3", controlPlane)}, refusal: quorum},
		"renamed, for the last":                    {words: maintenance.Takeover, becomes: []nodeOption{renamed}, others: roster{}, refusal: last},
		"Drydock's words where they are none":      {becomes: []nodeOption{renamed}, others: roster{}},
		"others' annotations and labels":           {becomes: []nodeOption{controlPlane, annotated("a", "b")}, others: roster{}},
		"caches cannot be read":                    {becomes: []nodeOption{requested}, warns: true},
		"a record that cannot be read":             {was: []nodeOption{annotated(maintenance.AnnotationNodeRecord, "{")}, becomes: []nodeOption{cordoned}, others: roster{}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.words == (maintenance.Vocabulary{}) {
				test.words = maintenance.Plain
			}
			old := node("n1", test.was...)
			now := old.DeepCopy()
			for _, change := range test.becomes {
				change(now)
			}
			nodes := test.others
			if nodes != nil {
				nodes = append(nodes, old)
			}
			response := review{path: PathValidateNodes, user: alice, old: encode(t, old), now: encode(t, now)}.send(t, handler(test.words, nodes, NewHomes()))
			if response.Allowed != (test.refusal == "") || len(response.Warnings) > 0 != test.warns {
				t.Fatalf("answered %+v", response)
			}
			if test.refusal != "" && (!strings.Contains(response.Result.Message, test.refusal) || response.Result.Code != 403) {
				t.Errorf("refused with %d %q, want %q", response.Result.Code, response.Result.Message, test.refusal)
			}
		})
	}
}

func encode(t testing.TB, object any) string {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
