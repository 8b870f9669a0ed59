// Package maintenance holds the words that Drydock, Harvester's front-end and
// people with kubectl use to talk about node maintenance: annotation and label
// keys, phases, strategies, and the records that Drydock leaves on nodes and
// virtual machines.
//
// It is ring 0: it reads and writes fields of API objects in memory and knows
// neither a client nor a clock. Drydock's own keys, and those of Harvester's
// maintenance, are spelled here alone; other keys of a neighbour's where that one is
// looked at. A rule about what should happen does not belong here but in pkg/plan.
package maintenance
