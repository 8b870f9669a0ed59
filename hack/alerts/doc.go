// Package alerts holds the tests of what the chart ships for Prometheus and Grafana:
// every alert fires when it should and not before, every query asks for metrics that the
// manager has, and every alert has its chapter in the runbook.
package alerts
