// Package kubevirt is what KubeVirt looks like from here: the virtual machines of a
// node with their launchers and migrations, read from caches through indexes, and the
// few writes that maintenance needs. It is ring 2: it knows KubeVirt's API and ring
// 0, decides nothing, and imports no other neighbour system.
package kubevirt
