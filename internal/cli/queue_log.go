package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// recordFlags choose what is shown of a record of changes.
type recordFlags struct {
	Limit  int      `help:"At most so many." default:"100"`
	What   []string `placeholder:"WHAT,..."`
	Since  moment   `placeholder:"INSTANT"`
	Until  moment   `help:"Only what was done before this instant." placeholder:"INSTANT"`
	Before int64    `help:"Only changes of lower numbers than this: where the one before ended." placeholder:"NUMBER"`
	output
}

// LongHelp is the help that is too long for the tags.
func (recordFlags) LongHelp() map[string]string {
	return map[string]string{
		"what": "Only what was done so: " + changeKinds() + ".",
		"since": "Only what was done at this instant or later, such as 07:00, yesterday 07:00 or " +
			"2026-01-02T15:04:05Z, or 2h, which is two hours ago.",
	}
}

// recordHelp is told by both commands that show a record.
const recordHelp = `Newest first. Changes are kept for 400 days unless the store was told otherwise
(--keep-changes of the ingress), and as long after the removal; a name has room for about a mebibyte of them,
and the record says how many it has dropped.
CLAIMED BY is what the one who did it says to be. Nobody verifies it.`

func (f *recordFlags) query(r *run, now time.Time) (q client.ChangesQuery, err error) {
	switch {
	case f.Limit < 1:
		return q, usage(fmt.Errorf("--limit %d: must be at least 1", f.Limit))
	case f.Before < 0:
		return q, usage(fmt.Errorf("--before %d: must be the number of a change", f.Before))
	}
	for _, what := range f.What {
		if !slices.Contains(changekind.Kinds, changekind.Kind(what)) {
			return q, usage(fmt.Errorf("--what %s: must be one of %s", plain(what), changeKinds()))
		}
	}
	q = client.ChangesQuery{Before: f.Before, What: f.What}
	if f.Since != "" {
		q.Since, err = f.Since.past(r, "--since", now)
	}
	if f.Until != "" && err == nil {
		q.Until, err = f.Until.past(r, "--until", now)
	}
	return q, err
}

func changeKinds() string {
	return strings.Trim(fmt.Sprint(changekind.Kinds), "[]")
}

// read reads pages until there are as many as were asked for.
func readRecord[C wire.Change | wire.RuleChange](
	r *run, f *recordFlags, page func(context.Context, client.ChangesQuery) (wire.Record[C], error),
) (all wire.Record[C], err error) {
	q, err := f.query(r, time.Now())
	if err != nil {
		return all, err
	}
	all.Changes = []C{}
	for {
		q.Limit = min(f.Limit-len(all.Changes), queue.MaxChanges)
		some, err := page(r.ctx, q)
		if err != nil {
			return all, err
		}
		all.Changes, all.Next, all.Dropped = append(all.Changes, some.Changes...), some.Next, some.Dropped
		if q.Before = some.Next; q.Before == 0 || len(all.Changes) >= f.Limit {
			return all, nil
		}
	}
}

// showRecord prints a record; row returns of a change what was done to whatever it was, and how.
func showRecord[C wire.Change | wire.RuleChange](
	r *run, f *recordFlags, record *wire.Record[C], row func(*C) (*wire.Done, string, error),
) error {
	if f.json() {
		return printJSON(r.Out, record)
	}
	t := table{
		header: []string{"NUMBER", "WHEN", "BY", "CLAIMED BY", "WHAT", "JOBS", "REVISION", "CHANGES"},
		right:  map[int]bool{0: true, 5: true, 6: true},
	}
	for i := range record.Changes {
		done, how, err := row(&record.Changes[i])
		if err != nil {
			return err
		}
		jobs := ""
		if done.Jobs > 0 {
			jobs = num(done.Jobs)
		}
		number, at := strconv.FormatInt(done.Number, 10), done.At.Local().Format(time.DateTime)
		t.add(
			number, at, plain(done.By), plain(done.ClaimedBy), plain(string(done.What)), jobs, num(done.Revision), how,
		)
	}
	if _, err := fmt.Fprint(r.Out, t.String()); err != nil {
		return err
	}
	if record.Dropped > 0 {
		r.say("%d older changes were dropped for want of room", record.Dropped)
	}
	if record.Next > 0 {
		r.say("there are more: --before %d shows them", record.Next)
	}
	return nil
}

type logCmd struct {
	Name string `arg:"" help:"Name of the queue, also of one that was removed."`
	recordFlags
}

// Help is shown below the flags.
func (logCmd) Help() string {
	return recordHelp + `
All is recorded but what producers and drainers do. Secrets are not shown: "deliver: *** -> ***" says that one
changed. What a spec was before and after is told of the last 50 specs.

Examples:
  penstock queue log email
  penstock queue log email --what purged,replayed,forgotten --since 'yesterday 00:00'
  penstock queue log email -o json`
}

func (c *logCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	read := func(ctx context.Context, q client.ChangesQuery) (wire.Record[wire.Change], error) {
		return api.Changes(ctx, c.Name, q)
	}
	record, err := readRecord(r, &c.recordFlags, read)
	if err != nil {
		return err
	}
	return showRecord(r, &c.recordFlags, &record, func(c *wire.Change) (*wire.Done, string, error) {
		how, err := changedSpecs(c)
		return &c.Done, how, err
	})
}

// changedSpecs says in one line what a change of a queue did.
func changedSpecs(c *wire.Change) (string, error) {
	var parts []string
	if c.Before != nil && c.After != nil {
		fields, err := fieldsBetween(c.Before, c.After)
		if err != nil {
			return "", err
		}
		parts = fieldTexts(withUnseen(fields, true))
	} else if c.After != nil {
		parts = append(parts, "rate: "+c.After.Rate.String())
	}
	return how(&c.Done, parts), nil
}

func fieldTexts(fields []change) (parts []string) {
	for _, f := range fields {
		parts = append(parts, fmt.Sprintf("%s: %s -> %s", f.Field, orNone(f.From), orNone(f.To)))
	}
	return parts
}

// how says in one line what is told of every change.
func how(d *wire.Done, parts []string) string {
	if len(d.IDs) > 0 {
		text := strings.Join(d.IDs, " ")
		if int64(len(d.IDs)) < d.Jobs {
			text += " ..."
		}
		parts = append(parts, plain(text))
	}
	if d.Detail != "" {
		parts = append(parts, plain(d.Detail))
	}
	if d.Until != nil {
		parts = append(parts, "until "+d.Until.Local().Format(time.DateTime))
	}
	if d.Reason != "" {
		parts = append(parts, plain(d.Reason))
	}
	return strings.Join(parts, "; ")
}
