package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/penstock/penstock/internal/ops"
)

// Program is RunIngress or RunDrainer.
type Program func(ctx context.Context, args []string, stdout, stderr io.Writer) error

// errCtrlC is the cause when a person stops a program with Ctrl-C in a terminal.
var errCtrlC = errors.New("stopped with Ctrl-C")

// Main runs a program until it ends or a signal stops it, prints its error, and returns the exit code.
func Main(name string, run Program) int {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	atTerminal := term.IsTerminal(int(os.Stdin.Fd())) || term.IsTerminal(int(os.Stderr.Fd()))
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals) // a second signal ends the process at once
			stop(causeOf(s, atTerminal))
		case <-ctx.Done():
		}
	}()
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

// causeOf returns the cause for a signal: errCtrlC for an interrupt at a terminal, otherwise nil. Supervisors send
// SIGTERM, and have no terminal.
func causeOf(s os.Signal, atTerminal bool) error {
	if s == os.Interrupt && atTerminal {
		return errCtrlC
	}
	return nil
}
