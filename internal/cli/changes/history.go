package changes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// History holds the flags of the commands that show a history of changes.
type History struct {
	Limit  int            `help:"Maximum number of changes." default:"100"`
	What   []string       `placeholder:"WHAT,..."`
	Since  command.Moment `placeholder:"INSTANT"`
	Until  command.Moment `help:"Only changes before this instant." placeholder:"INSTANT"`
	Before int64          `help:"Only changes with lower numbers, to continue an earlier list." placeholder:"NUMBER"`
	command.Output
}

// LongHelp returns the help texts that are too long for tags; see app.SetLongHelp.
func (History) LongHelp() map[string]string {
	return map[string]string{
		"what": "Only changes of these kinds: " + kinds() + ".",
		"since": "Only changes at or after this instant, such as 07:00, yesterday 07:00, 2026-01-02T15:04:05Z or 2h (two " +
			"hours ago).",
	}
}

// HistoryHelp is the common part of the help of these commands.
const HistoryHelp = `Newest first. Changes are kept for 400 days (--keep-changes of the server), also after a deletion.
Each name has room for about 1 MiB of changes; the list says how many were dropped.
CLAIMED BY is what the author claims to be; it is not authenticated.`

func kinds() string { return strings.Trim(fmt.Sprint(changekind.Kinds), "[]") }

func (h *History) query(r *command.Run, now time.Time) (q client.ChangesQuery, err error) {
	switch {
	case h.Limit < 1:
		return q, command.Usage(fmt.Errorf("--limit %d: must be at least 1", h.Limit))
	case h.Before < 0:
		return q, command.Usage(fmt.Errorf("--before %d: must be the number of a change", h.Before))
	}
	for _, what := range h.What {
		if !slices.Contains(changekind.Kinds, changekind.Kind(what)) {
			return q, command.Usage(fmt.Errorf("--what %s: must be one of %s", show.Text(what), kinds()))
		}
	}
	q = client.ChangesQuery{Before: h.Before, What: h.What}
	if h.Since != "" {
		q.Since, err = h.Since.Past(r, "--since", now)
	}
	if h.Until != "" && err == nil {
		q.Until, err = h.Until.Past(r, "--until", now)
	}
	return q, err
}

// ShowHistory prints the changes that page returns, page by page. row returns the common part of a change and what it
// changed.
func ShowHistory[C wire.Change | wire.RuleChange](
	r *command.Run, h *History, page func(context.Context, client.ChangesQuery) (wire.Record[C], error),
	row func(*C) (*wire.Done, []string, error),
) error {
	record, err := readHistory(r, h, page)
	if err != nil {
		return err
	}
	if h.JSON() {
		return command.PrintJSON(r.Out, record)
	}
	t := command.NewTable(">NUMBER", "WHEN", "BY", "CLAIMED BY", "WHAT", ">JOBS", ">REVISION", "CHANGES")
	for i := range record.Changes {
		done, parts, err := row(&record.Changes[i])
		if err != nil {
			return err
		}
		jobs := ""
		if done.Jobs > 0 {
			jobs = show.Int(done.Jobs)
		}
		t.Row(
			show.Int(done.Number), done.At.Local().Format(time.DateTime), done.By, done.ClaimedBy, string(done.What), jobs,
			show.Int(done.Revision), strings.Join(append(parts, details(done)...), "; "),
		)
	}
	if _, err := fmt.Fprint(r.Out, t.String()); err != nil {
		return err
	}
	if record.Dropped > 0 {
		r.Say("%d older changes were dropped for lack of room", record.Dropped)
	}
	if record.Next > 0 {
		r.Say("there are more; continue with --before %d", record.Next)
	}
	return nil
}

// readHistory reads pages up to the limit.
func readHistory[C wire.Change | wire.RuleChange](
	r *command.Run, h *History, page func(context.Context, client.ChangesQuery) (wire.Record[C], error),
) (all wire.Record[C], err error) {
	q, err := h.query(r, time.Now())
	if err != nil {
		return all, err
	}
	all.Changes = []C{}
	for {
		q.Limit = min(h.Limit-len(all.Changes), queue.MaxChanges)
		next, err := page(r.Ctx, q)
		if err != nil {
			return all, err
		}
		all.Changes, all.Next, all.Dropped = append(all.Changes, next.Changes...), next.Next, next.Dropped
		if q.Before = next.Next; q.Before == 0 || len(all.Changes) >= h.Limit {
			return all, nil
		}
	}
}

// Texts returns changed fields as texts.
func Texts(list []Field) (texts []string) {
	for i := range list {
		texts = append(texts, list[i].String())
	}
	return texts
}

// details returns what every kind of change may have.
func details(d *wire.Done) (parts []string) {
	if len(d.IDs) > 0 {
		text := strings.Join(d.IDs, " ")
		if int64(len(d.IDs)) < d.Jobs {
			text += " ..."
		}
		parts = append(parts, text)
	}
	if d.Detail != "" {
		parts = append(parts, d.Detail)
	}
	if d.Until != nil {
		parts = append(parts, "until "+d.Until.Local().Format(time.DateTime))
	}
	if d.Reason != "" {
		parts = append(parts, d.Reason)
	}
	return parts
}
