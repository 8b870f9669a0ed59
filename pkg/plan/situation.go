package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// situation is a snapshot with what every rule asks of it worked out once.
type situation struct {
	*Snapshot
	words   maintenance.Vocabulary
	request maintenance.Request
	record  *maintenance.NodeRecord
	forced  bool
	byName  map[string]*corev1.Node
	// candidates are the other nodes on which VMs can be placed: Ready, schedulable
	// and out of maintenance.
	candidates []*corev1.Node
	// unplaceable are rules that no candidate satisfies, see anyHosts.
	unplaceable []placement
}

// observe works a snapshot out. A record that cannot be read is an error: without it
// nobody knows what to bring back, so nothing may be done.
func observe(snapshot *Snapshot) (*situation, error) {
	s := &situation{Snapshot: snapshot, words: snapshot.Config.Words, byName: make(map[string]*corev1.Node, len(snapshot.Nodes))}
	if s.words == (maintenance.Vocabulary{}) {
		s.words = maintenance.Plain
	}
	for _, node := range snapshot.Nodes {
		s.byName[node.Name] = node
		if node.Name != snapshot.Name && s.available(node) {
			s.candidates = append(s.candidates, node)
		}
	}
	if snapshot.Node == nil {
		return s, nil
	}
	s.request = s.words.Request(snapshot.Node)
	record, err := maintenance.NodeRecordOf(snapshot.Node)
	if err != nil {
		return nil, err
	}
	s.record = record
	s.forced = s.request.Forced || (record != nil && record.Forced)
	return s, nil
}
