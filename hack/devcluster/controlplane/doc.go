// Package controlplane says how etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler are run as ordinary processes on loopback, and how each shows
// that it is ready.
package controlplane
