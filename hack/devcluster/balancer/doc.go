// Package balancer puts a TCP balancer on loopback behind every Service that asks
// for one with annotations, so that several replicas of a program that run as
// local processes are reachable as one, from webhooks and APIServices as well.
package balancer
