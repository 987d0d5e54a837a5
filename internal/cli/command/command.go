// Package command is what all commands share: how they reach a server, and how they declare lists, confirmations,
// progress and -o json.
//
// It promises that results go to standard output and all else to standard error, that text from others is escaped, and
// that an error carries its exit code (see Exit). It knows no command.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
)

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Run is one run of a command.
type Run struct {
	Streams
	Ctx        context.Context
	Server     string // value of --server; empty without the flag
	Connection Connection
}

// Client returns a client of the server that the flags name.
func (r *Run) Client() (*client.Client, error) {
	c, err := r.Connection.Client(r.Server)
	if err != nil {
		return nil, Usage(err)
	}
	return c, nil
}

// Say prints a message on standard error.
func (r *Run) Say(format string, args ...any) {
	_, _ = fmt.Fprintln(r.Err, show.Lines(fmt.Sprintf(format, args...)))
}

// Logger returns a logger that writes text to w.
func Logger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// Tethered returns a context that ends with r. A process whose standard input is r does not outlive its parent.
func Tethered(ctx context.Context, r io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // nobody waits for it: only the other end can end the read
		_, _ = io.Copy(io.Discard, r)
		cancel()
	}()
	return ctx, cancel
}

// Refused reports whether the server refused a request for a reason, such as "unknown_queue".
func Refused(err error, reason string) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Reason == reason
}
