// Command penstock is the operator's tool. It talks HTTP to an ingress; penstock up is ingress and drainer in one
// process.
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
	// The first signal interrupts the command, a second one kills the process.
	context.AfterFunc(ctx, stop)
	os.Exit(int(cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})))
}
