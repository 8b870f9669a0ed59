package cluster

import (
	"os"
	"slices"
	"sync"

	"github.com/drydock-dev/drydock/hack/devcluster/process"
	"github.com/drydock-dev/drydock/hack/devcluster/state"
)

// supervisor keeps the components: it notices when one ends, and stops them in
// the reverse order of their start, so that none loses what it depends on.
type supervisor struct {
	// fail ends the cluster with an error.
	fail func(error)
	// changed is called after the list of components has changed.
	changed func()
	report  *Report

	mu       sync.Mutex
	stopping bool
	running  []*process.Process
}

// start runs a component that must live as long as the cluster.
func (s *supervisor) start(spec process.Spec) (*process.Process, error) {
	return s.launch(spec, false)
}

// startRestarting runs a component that may end with exit status 0 and is started
// again then, as kubelet would: virt-api and virt-controller leave in this way
// when the cluster's configuration changes in a way that they only read at start.
func (s *supervisor) startRestarting(spec process.Spec) (*process.Process, error) {
	return s.launch(spec, true)
}

func (s *supervisor) launch(spec process.Spec, restart bool) (*process.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil, errStopping
	}
	p, err := process.Start(spec)
	if err != nil {
		return nil, err
	}
	s.running = append(s.running, p)
	go s.watch(p, restart)
	go s.changed()
	return p, nil
}

func (s *supervisor) watch(p *process.Process, restart bool) {
	<-p.Done()
	s.mu.Lock()
	stopping := s.stopping
	if !stopping {
		s.running = slices.DeleteFunc(s.running, func(other *process.Process) bool { return other == p })
	}
	s.mu.Unlock()
	switch {
	case stopping:
	case restart && p.EndedCleanly():
		s.report.Line("%s asked to be restarted", p.Spec.Name)
		if _, err := s.launch(p.Spec, restart); err != nil {
			s.fail(err)
		}
	default:
		s.fail(p.Err())
	}
}

// stop ends all components, the last one first.
func (s *supervisor) stop() {
	s.mu.Lock()
	s.stopping = true
	running := slices.Clone(s.running)
	s.mu.Unlock()
	for _, p := range slices.Backward(running) {
		p.Stop()
	}
}

// components lists what runs, this program first: the simulator is part of it.
func (s *supervisor) components(dir state.Dir) []state.Component {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []state.Component{{Name: "devcluster (with simulator)", PID: os.Getpid(), Log: dir.Log(simulatorLog)}}
	for _, p := range s.running {
		list = append(list, state.Component{Name: p.Spec.Name, PID: p.PID, Log: p.Spec.Log})
	}
	return list
}
