package queuecmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type quoteCmd struct {
	Name string  `arg:"" help:"Name of the queue."`
	Jobs *int64  `help:"Number of jobs to append." placeholder:"N"`
	Cost *int64  `help:"Cost of each job. Default: 1." placeholder:"N"`
	Lane *string `help:"Lane of the jobs." placeholder:"KEY"`
	Rate *string `help:"Another rate of the queue." placeholder:"RATE"`
	command.Output
}

func (quoteCmd) Help() string {
	return `Nothing is appended and no place is reserved. Assumes that no other jobs come and that deliveries succeed.
The number of waiting jobs that would expire is exact for a queue with one lane and nothing in flight.

Examples:
  penstock queue quote email --jobs 50000
  penstock queue quote email --jobs 500 --lane example.com
  penstock queue quote email --rate 5/s`
}

func (c *quoteCmd) Run(r *command.Run, api *client.Client) error {
	if c.Jobs == nil && c.Rate == nil {
		return command.Usage(errors.New("use --jobs, --rate or both"))
	}
	q, err := api.Quote(r.Ctx, c.Name, wire.QuoteRequest{Jobs: c.Jobs, Cost: c.Cost, Lane: c.Lane, Rate: c.Rate})
	if err != nil {
		return err
	}
	return c.Print(r, q, func() string { return c.text(&q) })
}

func (c *quoteCmd) text(q *wire.Quote) string {
	var pairs []string
	if c.Jobs != nil {
		text := fmt.Sprintf("%d fit, %d would be deferred, %d refused", q.Fit, q.Deferred, q.Refused)
		if q.RefusedAs != "" {
			text += " (" + q.RefusedAs + ")"
		}
		pairs = append(pairs, "jobs", text)
	}
	pairs = append(pairs, datesText(&q.Now)...)
	if q.Then != nil {
		pairs = append(pairs, datesText(q.Then)...)
	}
	if q.PausedUntil != nil {
		pairs = append(pairs, "paused", "until "+show.Instant(q.PausedUntil))
	}
	return command.Facts(pairs...)
}

// datesText describes dates in one line.
func datesText(f *wire.QuoteDates) []string {
	text := "nothing waits"
	switch {
	case f.Never != "":
		text = "as things are, no job leaves: each waits for " + cause.Cause(f.Never).Text()
	case f.DrainedAt != nil:
		text = "drained " + untilText(f.DrainedAt)
	}
	if f.FirstAt != nil && f.LastAt != nil {
		text += fmt.Sprintf("; the first leaves %s, the last %s", untilText(f.FirstAt), untilText(f.LastAt))
	}
	return []string{"at " + f.Rate.String(), text + expiringText(&f.Expiring)}
}

// expiringText returns how many waiting jobs would expire; empty if certainly none.
func expiringText(e *wire.Expiring) string {
	how := ""
	switch {
	case e.AtLeast:
		how = "at least "
	case e.Jobs == 0:
		return ""
	case !e.Exact:
		how = "about "
	}
	return fmt.Sprintf("; %s%d of the waiting jobs would expire", how, e.Jobs)
}

// untilText returns an instant with the time left until it.
func untilText(at *time.Time) string {
	left := time.Until(*at)
	if left <= 0 {
		return "now"
	}
	return fmt.Sprintf("in %s (%s)", show.Duration(left), show.Instant(at))
}
