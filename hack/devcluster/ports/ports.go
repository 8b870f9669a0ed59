// Package ports finds loopback ports that are free and stay so until the program
// that they are meant for has bound them.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The range lies below the kernel's ephemeral ports (32768 and up): from a port
// within them, any outgoing connection could be made between the moment it is
// found free and the moment its program binds it.
const (
	lowest  = 20000
	highest = 32000
)

// Pool hands out ports. Each is claimed with an abstract socket, which two dev
// clusters that boot at the same moment cannot both hold, which leaves no file
// behind, and which the kernel drops with the process.
type Pool struct {
	mu     sync.Mutex
	claims []net.Listener
}

// Take returns a free port of 127.0.0.1 and keeps other pools off it.
func (p *Pool) Take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range 1000 {
		port := lowest + rand.IntN(highest-lowest)
		claim, err := net.Listen("unix", fmt.Sprintf("@drydock-devcluster-port-%d", port))
		if err != nil {
			continue
		}
		if free(port) {
			p.claims = append(p.claims, claim)
			return port, nil
		}
		if err := claim.Close(); err != nil {
			return 0, fmt.Errorf("giving a port back: %w", err)
		}
	}
	return 0, errors.New("no free loopback port found in 1000 attempts")
}

func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// Close gives all ports back.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, claim := range p.claims {
		errs = append(errs, claim.Close())
	}
	p.claims = nil
	return errors.Join(errs...)
}
