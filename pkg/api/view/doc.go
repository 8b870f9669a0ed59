// Package view says how an object looks to the clients of Harvester's API: the Kubernetes
// object with id, type, links, actions and a summary of its state. It is pure: objects in,
// JSON out; no client, no clock, no rights of its own.
package view
