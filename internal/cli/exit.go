package cli

import (
	"context"
	"errors"

	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// Exit is how a command ended.
type Exit int

// The exit codes.
const (
	ExitDone        Exit = 0
	ExitFailed      Exit = 1              // also: what demo or prove was to show did not hold
	ExitUsage       Exit = ops.ExitMisuse // the command line or a file cannot be understood
	ExitRefused     Exit = 3              // the server refused, wholly or in part
	ExitUnreachable Exit = 4              // the ingress or its store cannot be reached
	ExitBrokenOff   Exit = 130            // by a signal
)

// ended is an error that knows its exit code. One without an err was told
// already.
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

func usage(err error) error { return &ended{ExitUsage, err} }

// told ends with a code after everything was said.
func told(code Exit) error {
	if code == ExitDone {
		return nil
	}
	return &ended{code: code}
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
		return ExitBrokenOff
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
