package ports

import (
	"fmt"
	"net"
	"testing"
)

func TestPoolsHandOutDifferentPortsThatAreFree(t *testing.T) {
	var one, other Pool
	defer one.Close()   //nolint:errcheck // a test
	defer other.Close() //nolint:errcheck // a test
	seen := map[int]bool{}
	for range 50 {
		for _, pool := range []*Pool{&one, &other} {
			port, err := pool.Take()
			if err != nil {
				t.Fatal(err)
			}
			if seen[port] {
				t.Fatalf("port %d was handed out twice", port)
			}
			seen[port] = true
			listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatalf("port %d is not free: %v", port, err)
			}
			defer listener.Close() //nolint:errcheck // a test
		}
	}
}
