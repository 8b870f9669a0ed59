package plan

import "github.com/drydock-dev/drydock/pkg/maintenance"

// Report is the machine-readable copy of a plan and its progress, kept in the node
// annotation [maintenance.AnnotationProgress] so that a client can show it without
// computing it. It lags behind the cluster by at most the second to which progress is
// coalesced.
type Report struct {
	// VMs are those that are still on the node, and Pods the plain pods; each a list
	// of at most fifty.
	VMs  []Fate    `json:"vms,omitempty"`
	Pods []PodFate `json:"pods,omitempty"`
	// VMsLeft and PodsLeft count all of them, VMsTotal the VMs when the drain began.
	VMsLeft  int `json:"vmsLeft"`
	VMsTotal int `json:"vmsTotal"`
	PodsLeft int `json:"podsLeft"`
	// Off are the VMs that this maintenance stopped and that are off.
	Off []OffVM `json:"off,omitempty"`
}

// OffVM is a VM that this maintenance stopped.
type OffVM struct {
	Namespace string                   `json:"namespace"`
	Name      string                   `json:"name"`
	Restart   maintenance.RestartPoint `json:"restart"`
	// Source is what the stop came from, force among them.
	Source maintenance.StopSource `json:"source"`
}

// reportMost bounds each list of a report: annotations are part of every node event
// that every kubelet's API server sends around.
const reportMost = 50

func (s *situation) progress(p *Plan) *Report {
	report := &Report{Pods: p.Pods[:min(len(p.Pods), reportMost)]}
	for n := range p.Pods {
		if !p.Pods[n].Returned {
			report.PodsLeft++
		}
	}
	for n := range p.VMs {
		if p.VMs[n].Progress == Ended {
			continue
		}
		report.VMsLeft++
		if len(report.VMs) < reportMost {
			report.VMs = append(report.VMs, p.VMs[n])
		}
	}
	if s.record != nil {
		report.VMsTotal = max(s.record.VMs, report.VMsLeft)
	}
	for n := range s.Stopped {
		v := &s.Stopped[n]
		if s.record != nil && v.Record.ID == s.record.ID && len(report.Off) < reportMost {
			report.Off = append(report.Off, OffVM{Namespace: v.VM.Namespace, Name: v.VM.Name, Restart: v.Record.Restart, Source: v.Record.Source})
		}
	}
	return report
}
