// Package process runs the control plane's programs: it starts them so that none
// outlives devcluster, waits until they are ready, explains how one ended, and
// reads what the kernel knows about them.
package process
