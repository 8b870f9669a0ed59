// Package maintenance turns events into passes over nodes and over VMs that Drydock
// stopped: gather, decide, execute. It is ring 3 and thin: what a change touches is
// here, what to do about it is in pkg/plan.
package maintenance
