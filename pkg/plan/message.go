package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/pkg/maintenance"
)

// handful is how many names a sentence holds before "and 12 more".
const handful = 5

// counted is "1 pod", "2 pods".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// names joins a handful in the order given.
func names(list []string) string {
	if len(list) <= handful {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:handful], ", "), len(list)-handful)
}

func refusals(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Warning })
}

func sentence(findings []Finding) string {
	list := make([]string, 0, len(findings))
	for _, f := range findings {
		list = append(list, f.Message)
	}
	if len(list) > handful {
		list = append(list[:handful:handful], fmt.Sprintf("and %d more", len(list)-handful))
	}
	for _, f := range findings {
		if f.Remedy != "" {
			// One command shows how; the others differ by the name alone.
			list = append(list, "to have a VM shut down instead of moved: "+f.Remedy)
			break
		}
	}
	return strings.Join(list, "; ")
}

func warnings(findings []Finding) string {
	var list []Finding
	for _, f := range findings {
		if f.Warning {
			list = append(list, f)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "; warning: " + sentence(list)
}

// leftover is what still keeps a node from being empty.
type leftover struct {
	vms, pods, unsent                  int
	migrating, stopping, slot, arrived int
	grace                              int64
	named, held, leaving, returned     []string
	// the VMs of each kind that have no word of their own
	moving, shutting, coming, queued []string
}

func (s *situation) left(p *Plan) leftover {
	var l leftover
	for n := range p.VMs {
		f := &p.VMs[n]
		if f.Progress == Ended {
			continue
		}
		l.vms++
		kind := &[]string{}
		switch {
		case f.Reason == ReasonArriving:
			l.arrived++
			kind = &l.coming
		case f.Progress == ShuttingDown:
			l.stopping++
			l.grace = max(l.grace, f.instance.grace())
			kind = &l.shutting
		case f.Progress == Marked || f.Progress == Migrating:
			l.migrating++
			kind = &l.moving
		case f.Verdict == Delete && f.Progress != Held:
		default:
			l.unsent++
			l.slot++
			kind = &l.queued
		}
		if word := ownWord(f); word != "" {
			l.named = append(l.named, word)
		} else {
			*kind = append(*kind, f.label())
		}
	}
	for _, pod := range p.Pods {
		if pod.Returned {
			l.returned = append(l.returned, pod.Namespace+"/"+pod.Name)
			continue
		}
		l.pods++
		if !pod.Leaving {
			l.unsent++
		}
		switch name := pod.Namespace + "/" + pod.Name; {
		case pod.Leaving:
			l.leaving = append(l.leaving, name+" is terminating")
		case pod.Detail != "" && pod.Detail != "is being evicted":
			l.held = append(l.held, name+" "+pod.Detail)
		}
	}
	slices.Sort(l.held)
	slices.Sort(l.leaving)
	l.held = append(l.held, l.leaving...)
	return l
}

// ownWord is what is said of a VM beside its kind, "" for nothing.
func ownWord(f *Fate) string {
	switch {
	case f.Verdict == Block:
		return f.label() + " " + f.Message
	case f.Progress == ShuttingDown, f.Detail == waitingForSlot && !f.Paused:
		return ""
	case f.Detail != "":
		return f.label() + pausedWord(f) + " " + f.Detail
	case f.Paused:
		return f.label() + " is paused"
	}
	return ""
}

func pausedWord(f *Fate) string {
	if f.Paused {
		return " (paused)"
	}
	return ""
}

// message says what is left: "4 of 7 VMs left: 2 migrating, …; 3 pods, …".
func (l leftover) message(s *situation) string {
	var parts []string
	if l.vms > 0 {
		total := ""
		if s.record != nil {
			total = fmt.Sprintf(" of %d", max(s.record.VMs, l.vms))
		}
		parts = append(parts, fmt.Sprintf("%d%s VMs left%s", l.vms, total, l.kinds()))
	}
	if len(l.named) > 0 {
		parts = append(parts, names(l.named))
	}
	if l.pods > 0 {
		pods := counted(l.pods, "pod") + " left"
		if len(l.held) > 0 {
			pods += ", " + names(l.held)
		}
		parts = append(parts, pods)
	}
	if len(parts) == 0 {
		return "no VM and no pod is left" + l.returnedSentence()
	}
	if !maintenance.NodeReady(s.Node) && l.vms > 0 {
		parts = append(parts, "the node is not Ready: its VMs may still be running there")
	}
	return strings.Join(parts, "; ") + l.returnedSentence()
}

func (l leftover) returnedSentence() string {
	if len(l.returned) == 0 {
		return ""
	}
	return "; back after their eviction and left alone: " + names(l.returned)
}

func (l leftover) kinds() string {
	var kinds []string
	for _, kind := range []struct {
		count int
		what  string
		vms   []string
	}{
		{l.migrating, "migrating", l.moving},
		{l.stopping, fmt.Sprintf("shutting down, up to %d s", l.grace), l.shutting},
		{l.arrived, "migrating in", l.coming},
		{l.slot, "waiting", l.queued},
	} {
		if kind.count == 0 {
			continue
		}
		text := fmt.Sprintf("%d %s", kind.count, kind.what)
		if len(kind.vms) > 0 {
			slices.Sort(kind.vms)
			text += " (" + names(kind.vms) + ")"
		}
		kinds = append(kinds, text)
	}
	if len(kinds) == 0 {
		return ""
	}
	return ": " + strings.Join(kinds, ", ")
}

// report is the final word on a node that may be rebooted.
func (s *situation) report() string {
	message := "the node is empty and may be rebooted"
	if unsafe := checkStorage(s); len(unsafe) > 0 {
		message = "do not reboot: " + sentence(unsafe)
	}
	message += s.offSentence(Emptied)
	if sole := s.soleCopies(); len(sole) > 0 {
		message += "; it holds the only healthy copy of " + names(sole) + ": reboot yes, remove no"
	}
	return message
}

func isStart(action Action) bool {
	_, ok := action.(Start)
	return ok
}

// offSentence lists the VMs that this maintenance stopped, and who starts them. On a
// node that is not emptied those that wait for that are started on leaving as well.
func (s *situation) offSentence(standing Standing) string {
	var leaving, later, owner, forced []string
	for n := range s.Stopped {
		v := &s.Stopped[n]
		if s.record == nil || v.Record.ID != s.record.ID {
			continue
		}
		name := v.VM.Namespace + "/" + v.VM.Name
		plan := s.decideVM(v, standing)
		switch {
		case v.Record.Restart == maintenance.RestartNever && v.Record.Source == maintenance.SourceForce:
			forced = append(forced, name)
		case v.Record.Restart == maintenance.RestartNever:
			owner = append(owner, name)
		case plan.Waiting != "":
			later = append(later, name+" ("+plan.Waiting+")")
		case slices.ContainsFunc(plan.Actions, isStart):
			later = append(later, name+" (its start is asked for)")
		case len(plan.Actions) == 0:
			leaving = append(leaving, name)
		}
	}
	var text string
	for _, part := range []struct {
		format string
		list   []string
	}{
		{"; started on leaving: %s", leaving},
		{"; not started yet: %s", later},
		{"; off until somebody starts them: %s", owner},
		{"; stopped by force, off until somebody starts them: %s", forced},
	} {
		if len(part.list) > 0 {
			slices.Sort(part.list)
			text += fmt.Sprintf(part.format, names(part.list))
		}
	}
	return text
}
