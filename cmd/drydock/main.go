// Command drydock takes the nodes of a KubeVirt cluster into maintenance and back.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/drydock-dev/drydock/pkg/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app.Command().Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "drydock:", err)
		os.Exit(1)
	}
}
