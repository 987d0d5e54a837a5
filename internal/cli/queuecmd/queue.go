// Package queuecmd has the commands about queues.
package queuecmd

import (
	"github.com/penstock/penstock/internal/cli/applycmd"
	"github.com/penstock/penstock/internal/cli/command"
)

// Cmd is penstock queue.
type Cmd struct {
	command.Connection
	Ls        lsCmd              `cmd:"" help:"List queues."`
	Info      infoCmd            `cmd:"" help:"Show a queue: settings, state, statistics."`
	Set       setCmd             `cmd:"" help:"Create a queue or change its settings."`
	Apply     applycmd.QueuesCmd `cmd:"" help:"Apply a file of queues and rules, and show the changes."`
	Pause     pauseCmd           `cmd:"" help:"Pause a queue. It still accepts jobs."`
	Resume    resumeCmd          `cmd:"" help:"Resume a queue, at its rate without a burst."`
	Log       logCmd             `cmd:"" help:"Show the history of changes to a queue."`
	Rollback  rollbackCmd        `cmd:"" help:"Roll a queue back to an earlier revision."`
	Quote     quoteCmd           `cmd:"" help:"Estimate when jobs would leave, or the effect of another rate."`
	Forecast  forecastCmd        `cmd:"" help:"Show when the jobs of a queue will have left, and what delays them."`
	Lanes     lanesCmd           `cmd:"" help:"List the lanes of a queue, the slowest first."`
	Timetable timetableCmd       `cmd:"" help:"Show the next departures of a queue, or why it is stopped."`
	Batches   batchesCmd         `cmd:"" help:"List the batches of a queue, such as campaigns, with their progress."`
	Batch     batchCmd           `cmd:"" help:"Show the progress of a batch, its failures, and when it is done."`
	History   historyCmd         `cmd:"" help:"Chart the last 15 minutes or 24 hours of a queue."`
	Events    eventsCmd          `cmd:"" help:"Stream the events of a queue."`
	Turn      turnCmd            `cmd:"" help:"Wait for a turn, to do something at the pace of a queue."`
	Purge     purgeCmd           `cmd:"" help:"Cancel the waiting and scheduled jobs of a queue."`
	Rm        rmCmd              `cmd:"" help:"Delete a queue."`
}
