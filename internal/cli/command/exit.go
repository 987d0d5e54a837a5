package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// Exit is the exit code of a command.
type Exit int

// The exit codes.
const (
	ExitDone        Exit = 0
	ExitFailed      Exit = 1              // also: demo, prove or doctor found something wrong
	ExitUsage       Exit = ops.ExitMisuse // invalid command line or file
	ExitRefused     Exit = 3              // the server refused all or part of the request
	ExitUnreachable Exit = 4              // the server or its store cannot be reached
	ExitInterrupted Exit = 130            // interrupted by a signal
)

// ended is an error with an exit code. Without an err, everything has been printed already.
type ended struct {
	code Exit
	err  error
}

func (e *ended) Error() string {
	if e.err == nil {
		return "ended"
	}
	return e.err.Error()
}

func (e *ended) Unwrap() error { return e.err }

// Usage returns err with the exit code of an invalid command line.
func Usage(err error) error { return &ended{ExitUsage, err} }

// Fail returns err with an exit code.
func Fail(code Exit, err error) error { return &ended{code, err} }

// Quiet returns an error that only sets the exit code, after the command has printed what happened. It returns nil for
// ExitDone.
func Quiet(code Exit) error {
	if code == ExitDone {
		return nil
	}
	return &ended{code: code}
}

// Report prints an error and returns its exit code.
func Report(w io.Writer, err error) Exit {
	code := exitOf(err)
	var quiet *ended
	if err == nil || errors.As(err, &quiet) && quiet.err == nil {
		return code
	}
	if code == ExitInterrupted {
		_, _ = fmt.Fprintln(w, "penstock: interrupted")
		return code
	}
	_, _ = fmt.Fprintf(w, "penstock: %s\n", show.Lines(err.Error()))
	if code == ExitUsage {
		_, _ = fmt.Fprintln(w, `penstock: see "penstock COMMAND --help"`)
	}
	return code
}

func exitOf(err error) Exit {
	var known *ended
	var gone *client.Unreachable
	var refused *client.Problem
	var declined *archive.Refused
	var damaged *archive.Damaged
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &known):
		return known.code
	case ops.IsMisuse(err):
		return ExitUsage
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, &gone), errors.Is(err, queue.ErrUnavailable), errors.Is(err, queue.ErrOutcomeUnknown):
		return ExitUnreachable
	case errors.As(err, &declined):
		return ExitRefused
	case errors.As(err, &damaged):
		return ExitUsage
	case errors.As(err, &refused):
		switch refused.Reason {
		case "unavailable", "no_store", "not_ready", "stopping", "outcome_unknown":
			return ExitUnreachable
		}
		if refused.Status >= 500 {
			return ExitFailed
		}
		return ExitRefused
	}
	return ExitFailed
}
