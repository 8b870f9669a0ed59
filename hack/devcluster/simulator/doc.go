// Package simulator stands in for the hosts of a KubeVirt cluster: kubelet,
// virt-handler, virt-launcher with its guest, and the part of Longhorn that
// follows a running volume.
//
// The control plane around it is the real one, so the simulator keeps to what a
// control plane can see: objects, their order of change, and who wrote them. It
// decides nothing that a host does not decide. Four concerns live here, each
// with one work queue, and they talk to each other through the API server
// wherever real hosts do:
//
//   - hosts.go, host_*.go: Node objects, leases, heartbeats, power;
//   - kubelet*.go: every pod that is bound to a simulated host;
//   - handler*.go: VirtualMachineInstances, their guests and migrations;
//   - longhorn*.go: volumes, engines and replicas.
//
// What they share in memory is small: the registry of hosts (which are powered)
// and the registry of guests (which launcher pod holds a running domain). Both
// can be rebuilt from the API server, except for what a power loss destroyed;
// that is kept in a file, see memory.go.
package simulator
