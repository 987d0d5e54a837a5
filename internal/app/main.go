package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/penstock/penstock/internal/ops"
)

// Program is RunIngress or RunDrainer.
type Program func(ctx context.Context, args []string, stdout, stderr io.Writer) error

// Main is what the main function of a program does: it runs it until it ends or a
// signal asks it to, says what went wrong, and returns the exit code.
func Main(name string, run Program) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		if ops.IsMisuse(err) {
			return ops.ExitMisuse
		}
		return 1
	}
	return 0
}
