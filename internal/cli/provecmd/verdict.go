package provecmd

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
)

// lawText describes whether the window law held. needed is the slack + delta that it needed, allowed is what it had.
func lawText(held bool, needed, allowed time.Duration) string {
	result := "held in every window"
	if !held {
		result = "BROKEN"
	}
	return fmt.Sprintf("%s; needed %v of the allowed slack + delta of %v", result, needed.Round(time.Microsecond), allowed)
}

// verdict prints whether everything held, and what did not.
func verdict(r *command.Run, held bool, broken []string) error {
	if held {
		_, err := fmt.Fprintln(r.Out, "PASSED")
		return err
	}
	_, _ = fmt.Fprintln(r.Out, "FAILED:")
	for _, b := range broken {
		_, _ = fmt.Fprintf(r.Out, "  %s\n", show.Text(b))
	}
	return exitCode(held)
}

// printReport prints a report as JSON.
func printReport(r *command.Run, report any, held bool) error {
	if err := command.PrintJSON(r.Out, report); err != nil {
		return err
	}
	return exitCode(held)
}

func exitCode(held bool) error {
	if held {
		return nil
	}
	return command.Quiet(command.ExitFailed)
}
