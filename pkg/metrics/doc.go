// Package metrics counts what the manager does and shows what it sees, for Prometheus.
// docs/metrics.md lists every series with its labels and how many there can be.
//
// It is ring 2: it fulfils the small observer interfaces that the executor and the
// maintenance controller declare, and reads API objects from caches that it is handed.
// It decides nothing, and nobody reads a metric back. Names of nodes and VMs are labels
// only where a series stands for a node in maintenance or a VM in trouble: such series
// are made from the caches at every scrape, so that none outlives its object.
package metrics
