// Drainer is the outflow of Penstock: jobs leave at the rate of their queue.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/penstock/penstock/internal/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	err := app.RunDrainer(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, app.ErrHelp) {
		fmt.Fprintf(os.Stderr, "drainer: %v\n", err)
		os.Exit(1)
	}
}
