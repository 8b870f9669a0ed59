package process

import (
	"os/exec"
	"runtime"
	"sync"
)

// starts carries commands to the one thread that starts them. The kernel sends
// Pdeathsig when the *thread* that forked ends, not the process, and Go retires
// idle threads as it likes: children started from anywhere would now and then
// be killed while devcluster lives. So a thread that is never given back does it.
var starts = sync.OnceValue(func() chan<- request {
	requests := make(chan request)
	go func() {
		runtime.LockOSThread()
		for r := range requests {
			r.result <- r.cmd.Start()
		}
	}()
	return requests
})

type request struct {
	cmd    *exec.Cmd
	result chan<- error
}

func startOnLivingThread(cmd *exec.Cmd) error {
	result := make(chan error)
	starts() <- request{cmd: cmd, result: result}
	return <-result
}
