package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/chain"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type auditCmd struct {
	connection
	Ls     auditLsCmd     `cmd:"" help:"List what was done and what was refused, by whom."`
	Tail   auditTailCmd   `cmd:"" help:"Show what is done, as it is done."`
	Verify auditVerifyCmd `cmd:""`
	Export auditExportCmd `cmd:"" help:"Write the audit log, with its digests, as a line of JSON for each entry."`
}

// LongHelp is the help that is too long for the tags.
func (auditCmd) LongHelp() map[string]string {
	return map[string]string{
		"verify": "Find out whether the audit log is whole: nothing changed, removed or put in between.",
	}
}

// auditFlags choose entries.
type auditFlags struct {
	App       string `env:"-" help:"Only what was done for this app." placeholder:"APP"`
	Actor     string `env:"-" help:"Only what this one did, such as token:4f1cq02mx7ab." placeholder:"NAME"`
	TokenID   string `env:"-" help:"Only what was done with this token." placeholder:"ID"`
	Of        string `env:"-" placeholder:"KIND"`
	Name      string `env:"-" help:"Only what was done to this one." placeholder:"NAME"`
	What      string `env:"-" placeholder:"WHAT"`
	Operation string `env:"-" placeholder:"ID"`
	Refused   bool   `env:"-" help:"Only what was refused."`
}

// LongHelp is the help that is too long for the tags.
func (auditFlags) LongHelp() map[string]string {
	return map[string]string{
		"of":        "Only what was done to these: queue, rule, app, token or subject.",
		"what":      "Only what was done so: created, changed, deleted and the like, or refused.",
		"operation": "Only what was asked for by this operation of the API, such as putQueue.",
	}
}

func (f *auditFlags) query() (q client.AuditQuery, err error) {
	if f.TokenID != "" {
		if f.TokenID, err = tokenID(f.TokenID); err != nil {
			return q, err
		}
	}
	return client.AuditQuery{
		App: f.App, Actor: f.Actor, Token: f.TokenID, Of: f.Of, Name: f.Name, What: f.What, Operation: f.Operation,
		Refused: f.Refused,
	}, nil
}

// spanFlags choose entries by when they were written.
type spanFlags struct {
	Since moment `env:"-" placeholder:"INSTANT"`
	Until moment `env:"-" help:"Only what was done before this instant." placeholder:"INSTANT"`
}

// LongHelp is the help that is too long for the tags.
func (spanFlags) LongHelp() map[string]string {
	return map[string]string{
		"since": "Only what was done at this instant or later, such as 07:00 or 2h, which is two hours ago.",
	}
}

func (f *spanFlags) into(r *run, q *client.AuditQuery) (err error) {
	if f.Since != "" {
		q.Since, err = f.Since.past(r, "--since", time.Now())
	}
	if f.Until != "" && err == nil {
		q.Until, err = f.Until.past(r, "--until", time.Now())
	}
	return err
}

// auditPage is how many entries a command asks for at a time.
const auditPage = 500

// readAudit shows each entry that is chosen, and returns how far the log goes by what the server says. It ends early
// where each says no.
func readAudit(
	r *run, api *client.Client, q client.AuditQuery, each func(*wire.AuditRecord) (bool, error),
) (chains []wire.AuditChain, next string, err error) {
	latest := map[chain.Log]wire.AuditChain{}
	for {
		q.Limit = auditPage
		page, err := api.Audit(r.ctx, q)
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

type auditLsCmd struct {
	Limit int `env:"-" help:"At most so many." default:"100"`
	auditFlags
	spanFlags
	Oldest bool `env:"-" help:"The oldest first."`
	output
}

// Help is shown below the flags.
func (auditLsCmd) Help() string {
	return `All is recorded but what producers and workers do; of what is refused, the first at once and then
one entry a minute that stands for several. BY is who it was proven to be.

Examples:
  penstock audit ls --since 'yesterday 00:00'
  penstock audit ls --of queue --name email
  penstock audit ls --app acme --refused -o json`
}

func (c *auditLsCmd) Run(r *run) error {
	if c.Limit < 1 {
		return usage(fmt.Errorf("--limit %d: must be at least 1", c.Limit))
	}
	q, err := c.query()
	if err == nil {
		err = c.into(r, &q)
	}
	if err != nil {
		return err
	}
	q.Oldest = c.Oldest
	api, err := r.client()
	if err != nil {
		return err
	}
	records := []wire.AuditRecord{}
	if _, _, err := readAudit(r, api, q, func(e *wire.AuditRecord) (bool, error) {
		records = append(records, *e)
		return len(records) < c.Limit, nil
	}); err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, records)
	}
	t := table{
		header: []string{"WHEN", "BY", "APP", "FROM", "WHAT", "OF", "NAME", "REVISION", "HOW"},
		right:  map[int]bool{7: true},
	}
	for i := range records {
		t.add(auditCells(&records[i])...)
	}
	_, err = fmt.Fprint(r.Out, t.String())
	return err
}

// auditCells are an entry as a row.
func auditCells(record *wire.AuditRecord) []string {
	e := &record.Entry
	what := string(e.What)
	if e.Refused != "" {
		what = strings.TrimSpace("refused " + e.Actor.Operation)
	}
	revision := ""
	if e.Revision > 0 {
		revision = num(e.Revision)
	}
	return []string{
		e.Time().Local().Format(time.DateTime), orNone(e.Actor.Name), plain(e.Actor.App), plain(e.Actor.Address), plain(what),
		plain(e.Of), plain(e.Name), revision, auditHow(record),
	}
}

// auditHow says in one line what else is known of an entry.
func auditHow(record *wire.AuditRecord) string {
	e := &record.Entry
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, plain(fmt.Sprintf(format, args...))) }
	if e.Refused != "" {
		add("%s", e.Refused)
	}
	if e.Times > 1 {
		add("%d times", e.Times)
	}
	if e.Jobs > 0 {
		add("%s", plural(e.Jobs))
	}
	for _, text := range []string{e.Detail, e.Reason} {
		if text != "" {
			add("%s", text)
		}
	}
	if e.Actor.Note != "" {
		add("claims to be %s", e.Actor.Note)
	}
	return strings.Join(parts, ", ")
}

type auditTailCmd struct {
	Limit int `env:"-" help:"How many that are there to begin with." default:"10"`
	auditFlags
	Every time.Duration `env:"-" help:"How often to ask for more." default:"2s" placeholder:"DURATION"`
	output
}

// Help is shown below the flags.
func (auditTailCmd) Help() string {
	return `Runs until Ctrl-C. With -o json it prints one line for each entry, for whoever collects logs.

Examples:
  penstock audit tail
  penstock audit tail --refused
  penstock audit tail -o json --limit 0 | your-collector`
}

func (c *auditTailCmd) Run(r *run) error {
	if c.Limit < 0 || c.Every <= 0 {
		return usage(fmt.Errorf("--limit %d must not be negative, --every %v must be above 0", c.Limit, c.Every))
	}
	q, err := c.query()
	if err != nil {
		return err
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	// From what is there now on; who follows it learns of each entry once.
	var begin []wire.AuditRecord
	if _, _, err := readAudit(r, api, q, func(e *wire.AuditRecord) (bool, error) {
		begin = append(begin, *e)
		return len(begin) < max(1, c.Limit), nil
	}); err != nil {
		return err
	}
	seen := map[int]int64{} // until when, by partition: who does not see all is told no numbers
	q.Oldest = true
	for i, e := range slices.Backward(begin) {
		seen[e.Partition] = max(seen[e.Partition], e.Entry.At)
		q.Since = e.Entry.Time()
		if i < c.Limit {
			if err := c.print(r, &e); err != nil {
				return err
			}
		}
	}
	for {
		_, next, err := readAudit(r, api, q, func(e *wire.AuditRecord) (bool, error) {
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
		case <-r.ctx.Done():
			return r.ctx.Err()
		case <-time.After(c.Every):
		}
	}
}

func (c *auditTailCmd) print(r *run, e *wire.AuditRecord) error {
	if c.json() {
		return printLine(r.Out, e)
	}
	cells := slices.DeleteFunc(auditCells(e), func(s string) bool { return s == "" })
	_, err := fmt.Fprintln(r.Out, strings.Join(cells, "  "))
	return err
}
