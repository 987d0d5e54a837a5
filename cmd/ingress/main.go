// Ingress is the front door of Penstock: jobs come in over HTTP.
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
	err := app.RunIngress(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, app.ErrHelp) {
		fmt.Fprintf(os.Stderr, "ingress: %v\n", err)
		os.Exit(1)
	}
}
