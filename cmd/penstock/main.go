// Command penstock is the operator's tool. It speaks HTTP to an ingress; up is
// ingress and drainer in one process.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/penstock/penstock/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Once is asking; the second time the signal does what it always does.
	context.AfterFunc(ctx, stop)
	os.Exit(int(cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})))
}
