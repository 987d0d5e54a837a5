// Package auditcmd has the commands that read and verify the audit log.
package auditcmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/chain"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// Cmd is penstock audit.
type Cmd struct {
	command.Connection
	Ls     lsCmd     `cmd:"" help:"List actions and refusals with their actors."`
	Tail   tailCmd   `cmd:"" help:"Follow the audit log."`
	Verify verifyCmd `cmd:"" help:"Verify that no entry of the audit log was changed, removed or inserted."`
	Export exportCmd `cmd:"" help:"Export the audit log with its digests, one JSON object per line."`
}

// filter selects entries.
type filter struct {
	App       string `env:"-" help:"Only entries of this app." placeholder:"APP"`
	Actor     string `env:"-" help:"Only entries by this actor, such as token:4f1cq02mx7ab." placeholder:"NAME"`
	TokenID   string `env:"-" help:"Only entries by this token." placeholder:"ID"`
	Of        string `env:"-" help:"Only entries about a kind: queue, rule, app, token or subject." placeholder:"KIND"`
	Name      string `env:"-" help:"Only entries about this name." placeholder:"NAME"`
	What      string `env:"-" help:"Only entries of an action, such as created or refused." placeholder:"WHAT"`
	Operation string `env:"-" help:"Only entries of one API operation, such as putQueue." placeholder:"ID"`
	Refused   bool   `env:"-" help:"Only refusals."`
}

func (f *filter) query() (q client.AuditQuery, err error) {
	if f.TokenID != "" {
		if f.TokenID, err = command.TokenID(f.TokenID); err != nil {
			return q, err
		}
	}
	return client.AuditQuery{
		App: f.App, Actor: f.Actor, Token: f.TokenID, Of: f.Of, Name: f.Name, What: f.What, Operation: f.Operation,
		Refused: f.Refused,
	}, nil
}

// span selects entries by time.
type span struct {
	Since command.Moment `env:"-" placeholder:"INSTANT"`
	Until command.Moment `env:"-" help:"Only entries before this instant." placeholder:"INSTANT"`
}

func (span) LongHelp() map[string]string {
	return map[string]string{
		"since": "Only entries at or after this instant, such as 07:00 or 2h (two hours ago).",
	}
}

func (s *span) into(r *command.Run, q *client.AuditQuery) (err error) {
	if s.Since != "" {
		q.Since, err = s.Since.Past(r, "--since", time.Now())
	}
	if s.Until != "" && err == nil {
		q.Until, err = s.Until.Past(r, "--until", time.Now())
	}
	return err
}

// pageSize is the number of entries in one request.
const pageSize = 500

// read passes the selected entries to each until it returns false. It returns the heads of the log, as the server
// states them, and the position behind the last page.
func read(
	r *command.Run, api *client.Client, q client.AuditQuery, each func(*wire.AuditRecord) (bool, error),
) (chains []wire.AuditChain, next string, err error) {
	latest := map[chain.Log]wire.AuditChain{}
	for {
		q.Limit = pageSize
		page, err := api.Audit(r.Ctx, q)
		if err != nil {
			return nil, "", err
		}
		for _, c := range page.Chains {
			latest[chain.Log{Partition: c.Partition, Budget: c.Budget}] = c
		}
		for i := range page.Records {
			if more, err := each(&page.Records[i]); err != nil || !more {
				return nil, "", err
			}
		}
		if page.Next == "" || page.Next == q.After {
			for _, c := range latest {
				chains = append(chains, c)
			}
			return chains, q.After, nil
		}
		q.After = page.Next
	}
}

type lsCmd struct {
	Limit int `env:"-" help:"Maximum number of entries." default:"100"`
	filter
	span
	Oldest bool `env:"-" help:"List the oldest entries first."`
	command.Output
}

func (lsCmd) Help() string {
	return `The log records every change except the work of producers and workers. The first of several equal
refusals has its own entry; the others share one entry per minute. BY is the authenticated actor.

Examples:
  penstock audit ls --since 'yesterday 00:00'
  penstock audit ls --of queue --name email
  penstock audit ls --app acme --refused -o json`
}

func (c *lsCmd) Run(r *command.Run, api *client.Client) error {
	if c.Limit < 1 {
		return command.Usage(fmt.Errorf("--limit %d: must be at least 1", c.Limit))
	}
	q, err := c.query()
	if err == nil {
		err = c.into(r, &q)
	}
	if err != nil {
		return err
	}
	q.Oldest = c.Oldest
	var records []wire.AuditRecord
	if _, _, err := read(r, api, q, func(e *wire.AuditRecord) (bool, error) {
		records = append(records, *e)
		return len(records) < c.Limit, nil
	}); err != nil {
		return err
	}
	return command.List(r, c.Output, records, "",
		command.NewTable("WHEN", "BY", "APP", "FROM", "WHAT", "OF", "NAME", ">REVISION", "HOW"), cells)
}

// cells returns an entry as a row of a table.
func cells(record *wire.AuditRecord) []string {
	e := &record.Entry
	what := string(e.What)
	if e.Refused != "" {
		what = strings.TrimSpace("refused " + e.Actor.Operation)
	}
	revision := ""
	if e.Revision > 0 {
		revision = show.Int(e.Revision)
	}
	return []string{
		e.Time().Local().Format(time.DateTime), show.OrNone(e.Actor.Name), show.Text(e.Actor.App), show.Text(e.Actor.Address),
		show.Text(what), show.Text(e.Of), show.Text(e.Name), revision, show.Text(details(record)),
	}
}

// details returns the other facts of an entry.
func details(record *wire.AuditRecord) string {
	e := &record.Entry
	var parts []string
	if e.Refused != "" {
		parts = append(parts, e.Refused)
	}
	if e.Times > 1 {
		parts = append(parts, fmt.Sprintf("%d times", e.Times))
	}
	if list, err := e.List(record.After); err == nil && list != nil {
		parts = append(parts, show.Count(int64(len(list)), "queue"))
	}
	if e.Jobs > 0 {
		parts = append(parts, show.Jobs(e.Jobs))
	}
	for _, text := range []string{e.Detail, e.Reason} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if e.Actor.Note != "" {
		parts = append(parts, "claims to be "+e.Actor.Note)
	}
	return strings.Join(parts, ", ")
}

type tailCmd struct {
	Limit int `env:"-" help:"Number of present entries to print first." default:"10"`
	filter
	Every time.Duration `env:"-" help:"Time between two requests for new entries." default:"2s" placeholder:"DURATION"`
	command.Output
}

func (tailCmd) Help() string {
	return `Runs until Ctrl-C. With -o json it prints one line per entry, for log collectors.

Examples:
  penstock audit tail
  penstock audit tail --refused
  penstock audit tail -o json --limit 0 | your-collector`
}

func (c *tailCmd) Run(r *command.Run, api *client.Client) error {
	if c.Limit < 0 || c.Every <= 0 {
		return command.Usage(fmt.Errorf("--limit %d must not be negative, --every %v must be positive", c.Limit, c.Every))
	}
	q, err := c.query()
	if err != nil {
		return err
	}
	var present []wire.AuditRecord
	if _, _, err := read(r, api, q, func(e *wire.AuditRecord) (bool, error) {
		present = append(present, *e)
		return len(present) < max(1, c.Limit), nil
	}); err != nil {
		return err
	}
	seen := map[int]int64{} // time of the newest entry by partition; not every caller may see the numbers
	q.Oldest = true
	for i, e := range slices.Backward(present) {
		seen[e.Partition] = max(seen[e.Partition], e.Entry.At)
		q.Since = e.Entry.Time()
		if i < c.Limit {
			if err := c.print(r, &e); err != nil {
				return err
			}
		}
	}
	for {
		_, next, err := read(r, api, q, func(e *wire.AuditRecord) (bool, error) {
			if e.Entry.At <= seen[e.Partition] {
				return true, nil
			}
			return true, c.print(r, e)
		})
		if err != nil {
			return err
		}
		q.After = next
		select {
		case <-r.Ctx.Done():
			return r.Ctx.Err()
		case <-time.After(c.Every):
		}
	}
}

func (c *tailCmd) print(r *command.Run, e *wire.AuditRecord) error {
	if c.JSON() {
		return command.PrintLine(r.Out, e)
	}
	row := slices.DeleteFunc(cells(e), func(s string) bool { return s == "" })
	_, err := fmt.Fprintln(r.Out, strings.Join(row, "  "))
	return err
}
