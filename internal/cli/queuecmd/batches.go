package queuecmd

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type batchesCmd struct {
	Name  string `arg:"" help:"Name of the queue."`
	Limit int    `help:"Maximum number of batches; 0 lists all." default:"100"`
	command.Output
}

func (batchesCmd) Help() string {
	return `A batch is the jobs of a queue that carry the same label, such as a campaign. Failures are dead and
expired jobs.

Examples:
  penstock push email -f spring.ndjson --in-batch spring
  penstock queue batches email
  penstock queue batches email -o json | jq '.[] | select(.remaining > 0)'`
}

func (c *batchesCmd) Run(r *command.Run, api *client.Client) error {
	if c.Limit < 0 {
		return command.Usage(fmt.Errorf("--limit %d: must be 0 or more", c.Limit))
	}
	list, more := []wire.Batch{}, false
	for after := ""; !more; {
		page, err := api.Batches(r.Ctx, c.Name, after, 100)
		if err != nil {
			return err
		}
		list = append(list, page.Batches...)
		if after = page.Next; c.Limit > 0 && (len(list) > c.Limit || len(list) == c.Limit && after != "") {
			list, more = list[:c.Limit], true
		}
		if after == "" {
			break
		}
	}
	err := command.List(r, c.Output, list, "no batches\n",
		command.NewTable("BATCH", ">DONE", ">ACCEPTED", ">REMAINING", ">FAILURES", "FINISH", "SLOWEST LANE"),
		func(b *wire.Batch) []string {
			return []string{
				show.Text(b.Batch), percent(b), show.Int(b.Accepted), show.Int(b.Remaining), show.Int(b.Failures),
				batchFinish(b), show.Text(b.SlowestLane),
			}
		})
	if err == nil && more && !c.JSON() {
		r.Say("there are more; list all with --limit 0")
	}
	return err
}

type batchCmd struct {
	Name  string `arg:"" help:"Name of the queue."`
	Batch string `arg:"" help:"Label of the batch."`
	command.Watched
}

func (batchCmd) Help() string {
	return `Examples:
  penstock queue batch email spring
  penstock queue batch email spring --watch`
}

func (c *batchCmd) Run(r *command.Run, api *client.Client) error {
	return command.Watch(r, &c.Watched, func(ctx context.Context) (wire.Batch, error) {
		return api.Batch(ctx, c.Name, c.Batch)
	}, batchText)
}

func batchText(b wire.Batch, _ time.Time) string {
	pairs := []string{
		"batch", b.Batch, "done", percent(&b), "accepted", show.Int(b.Accepted), "remaining", show.Int(b.Remaining),
		"delivered", show.Int(b.Delivered), "dead", show.Int(b.Dead), "expired", show.Int(b.Expired),
		"cancelled", show.Int(b.Cancelled), "missing", show.Int(b.Missing), "first job", show.Instant(b.FirstAt),
		"last job", show.Instant(b.LastAt), "finish", batchFinish(&b), "slowest lane", b.SlowestLane,
	}
	return command.Facts(pairs...)
}

// percent returns how many of a batch's jobs have ended. It shows 100 % only when none remains.
func percent(b *wire.Batch) string {
	n := int(b.Progress() * 100)
	if b.Remaining > 0 {
		n = min(n, 99)
	}
	return fmt.Sprintf("%d%%", n)
}

// batchFinish says when the last job of a batch leaves, or when the batch ended.
func batchFinish(b *wire.Batch) string {
	switch {
	case b.EndedAt != nil:
		return "ended " + show.Instant(b.EndedAt)
	case b.FinishAt == nil && b.Why != "":
		return "never: waits for " + b.Why.Text()
	case b.FinishAt == nil:
		return "never"
	case b.AtMost:
		return "by " + show.Instant(b.FinishAt)
	case b.Exact:
		return show.Instant(b.FinishAt)
	}
	return "about " + show.Instant(b.FinishAt)
}
