// Package nodedrain is what the pods of a node look like from here: watched while the
// node drains, chosen as kubectl drain would choose them, and evicted one request at
// a time. It is ring 2: it decides nothing and imports no other neighbour system.
//
// Of k8s.io/kubectl/pkg/drain only the filters are used. Its EvictPod has no UID
// precondition and takes a grace period of zero for "kill now", and RunNodeDrain
// blocks its caller, polls each pod every second and repeats a refused eviction every
// five seconds for ever.
package nodedrain
