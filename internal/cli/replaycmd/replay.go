// Package replaycmd has penstock replay.
package replaycmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/outfile"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/replay"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// Cmd is penstock replay.
type Cmd struct {
	Log        []string `required:"" sep:"none" placeholder:"FILE"`
	Rule       []string `sep:"none" placeholder:"RULE"`
	Queue      []string `sep:"none" placeholder:"TEXT"`
	Key        *string  `placeholder:"TEMPLATE"`
	Cost       string   `help:"Field with the cost of a request. Default: each costs 1." placeholder:"FIELD"`
	Format     string   `enum:",combined,ndjson,csv" default:"" placeholder:"FORMAT"`
	Time       string   `placeholder:"FIELD"`
	TimeFormat string   `placeholder:"LAYOUT"`
	Timezone   string   `help:"Zone of times without one, such as Europe/Berlin." default:"UTC" placeholder:"ZONE"`
	Spread     bool     `help:"Spread the requests of a whole second evenly over it, instead of putting all at its start."`
	Chart      string   `help:"Write a chart over time to this self-contained .html file." placeholder:"FILE"`
	command.Output
}

// LongHelp returns the help texts that are too long for tags; see app.SetLongHelp.
func (Cmd) LongHelp() map[string]string {
	return map[string]string{
		"log":   "Log file, may be gzipped; - is standard input. May be repeated: several logs are merged by time.",
		"queue": `Queue to try, such as "rate=14/s capacity=1000 burst=1". May be repeated.`,
		"rule":  `Rule to try, such as "meter rate=5/s burst=10", or a YAML or JSON file of rules. May be repeated.`,
		"key": "What rules count by: a field, or fields in braces such as {remote_addr}:{path}; empty counts all as one. " +
			"Default: {remote_addr} for combined logs, all as one for others.",
		"format": "combined, ndjson or csv. Default: detected.",
		"time": "Field of ndjson or csv with the time. Default: time, timestamp, @timestamp, ts, date or at, whichever " +
			"exists.",
		"time-format": "Format of the time: unix, unix_ms, unix_us, or a Go layout of 2 January 2006 15:04:05. Default: " +
			"the common formats.",
	}
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return `Runs the requests of logs through rules and queues, without a server, and shows what they would have
allowed and refused, and under which keys. Each rule and queue gets all requests.

Formats: combined and common logs of web servers, with the fields remote_addr, user, method, path,
query, protocol, status, bytes, header.Referer and header.User-Agent; NDJSON, with fields such as
/user/id (JSON pointers); CSV with column names in its first line.

Rules are written as in a file of rules; key={path} overrides --key for one rule. With concurrency,
each request holds its place for the ttl:
` + sampleRules() + `
Examples:
  penstock replay --log access.log --rule "meter rate=5/s burst=10" --rule "meter rate=5/s burst=50"
  penstock replay --log access.log --log access.log.1.gz --rule rules.yaml --chart what-if.html
  penstock replay --log calls.ndjson --key /tenant --cost /units --rule "sliding_log limit=1000 period=1h"
  zcat mail.csv.gz | penstock replay --log - --key "{tenant}:{route}" --queue "rate=14/s capacity=1000"

Exit codes: 0 success; 2 invalid option, or a log without a usable line; 130 interrupted.`
}

// sampleNumbers has a value for each number of a rule.
var sampleNumbers = map[string]string{
	"rate": "5/s", "burst": "10", "limit": "100", "period": "1m", "resolution": "1s", "ttl": "30s",
}

// sampleRules lists a rule of each algorithm with all its numbers.
func sampleRules() string {
	var list strings.Builder
	for _, a := range rules.Algorithms() {
		fmt.Fprintf(&list, "  %-15s", a)
		for _, number := range rules.Numbers(a) {
			fmt.Fprintf(&list, " %s=%s", number, sampleNumbers[number])
		}
		if rules.NeedsUnit(a) {
			list.WriteString(" unit=tokens")
		}
		list.WriteByte('\n')
	}
	return list.String()
}

// Run runs the command.
func (c *Cmd) Run(r *command.Run) error {
	options, err := c.options()
	if err != nil {
		return command.Usage(err)
	}
	if c.Chart != "" {
		if err := outfile.CheckReplace(c.Chart); err != nil {
			return command.Usage(fmt.Errorf("--chart: %w", err))
		}
	}
	bar := newReadBar(r.Err)
	defer bar.End()
	for _, name := range c.Log {
		in, size, err := openLog(r, name)
		if err != nil {
			return command.Usage(err)
		}
		defer func() { _ = in.Close() }()
		if name == "-" {
			name = "standard input"
		}
		options.Logs = append(options.Logs, replay.Log{Name: name, In: bar.watch(in, size)})
	}
	report, err := replay.Run(r.Ctx, options)
	bar.End()
	switch {
	case r.Ctx.Err() != nil:
		return r.Ctx.Err()
	case err != nil:
		return command.Usage(err)
	}
	if c.Chart != "" {
		picture, err := report.Chart()
		if err != nil {
			return err
		}
		err = outfile.Replace(r.Ctx, c.Chart, 0o644, func(w io.Writer) error {
			_, err := w.Write(picture)
			return err
		})
		if err != nil {
			return fmt.Errorf("write the chart: %w", err)
		}
	}
	for _, f := range report.Faults {
		r.Say("%s:%d: %s", show.Text(f.Log), f.Line, show.Text(f.Why))
	}
	if c.JSON() {
		return command.PrintJSON(r.Out, report)
	}
	return printReplay(r.Out, report)
}

func (c *Cmd) options() (o replay.Options, err error) {
	o = replay.Options{Format: c.Format, Time: c.Time, TimeFormat: c.TimeFormat, Cost: c.Cost, Spread: c.Spread}
	for _, text := range c.Rule {
		rules, err := replay.ReadRules(text, c.Key)
		if err != nil {
			return o, err
		}
		o.Rules = append(o.Rules, rules...)
	}
	for _, text := range c.Queue {
		q, err := replay.ReadQueue(text)
		if err != nil {
			return o, err
		}
		o.Queues = append(o.Queues, q)
	}
	if len(o.Rules)+len(o.Queues) == 0 {
		return o, errors.New(
			"nothing to try: use --rule \"meter rate=5/s burst=10\" or --queue \"rate=14/s capacity=1000\"",
		)
	}
	if o.Zone, err = time.LoadLocation(c.Timezone); err != nil {
		return o, fmt.Errorf("--timezone %q: must be a time zone of the IANA database, such as Europe/Berlin", c.Timezone)
	}
	if c.Chart != "" {
		err = replay.CheckChart(c.Chart)
	}
	if i := slices.Index(c.Log, "-"); i >= 0 && slices.Contains(c.Log[i+1:], "-") {
		err = errors.New("--log: - is given twice, but standard input can be read only once")
	}
	return o, err
}

// openLog returns a log and its size, -1 if unknown.
func openLog(r *command.Run, name string) (io.ReadCloser, int64, error) {
	if name == "-" {
		return io.NopCloser(r.In), -1, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, fmt.Errorf("--log: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("it is a directory")
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, fmt.Errorf("--log %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return f, -1, nil
	}
	return f, info.Size(), nil
}

func printReplay(w io.Writer, r *replay.Report) error {
	line := fmt.Sprintf(
		"%s from %s to %s (%s)", requestCount(r.Requests), r.From.Format(time.RFC3339), r.To.Format(time.RFC3339),
		show.Duration(r.To.Sub(r.From)),
	)
	if r.Broken > 0 {
		line += fmt.Sprintf("; %s unreadable", lineCount(r.Broken))
	}
	if r.Late > 0 {
		line += fmt.Sprintf("; %s out of order, moved to the latest instant", lineCount(r.Late))
	}
	_, err := fmt.Fprintf(w, "%s\nat most %s\n", line, burstsOf(
		r.Came, func(b *replay.Burst) int64 { return b.Asked },
	))
	if r.WholeSeconds && !r.Spread {
		_, err = fmt.Fprintln(
			w,
			"the log has whole seconds; the requests of a second count as simultaneous, the worst case; --spread spreads them",
		)
	}
	if len(r.Rules) > 0 {
		_, err = fmt.Fprintf(w, "\n%s", rulesTable(r))
	}
	for i := range r.Rules {
		_, err = fmt.Fprintf(w, "\n%s", ruleKeys(&r.Rules[i]))
	}
	if len(r.Queues) > 0 {
		_, err = fmt.Fprintf(w, "\n%s", queuesTable(r))
	}
	return err
}

func requestCount(n int64) string {
	if n == 1 {
		return "1 request"
	}
	return humanize.Comma(n) + " requests"
}

func lineCount(n int64) string {
	if n == 1 {
		return "1 line"
	}
	return humanize.Comma(n) + " lines"
}

func burstsOf(bursts []replay.Burst, of func(*replay.Burst) int64) (text string) {
	for i := range bursts {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s in %s", humanize.Comma(of(&bursts[i])), spelled(bursts[i].Span))
	}
	return text
}

func rulesTable(r *replay.Report) string {
	t := command.NewTable("RULE", ">ALLOWED", ">REFUSED", ">SHARE", ">KEYS", ">HIT")
	for _, b := range r.Rules[0].Bursts {
		t.Column(">IN " + spelled(b.Span))
	}
	t.Column(">LONGEST WAIT")
	for i := range r.Rules {
		o := &r.Rules[i]
		cells := []string{
			o.Rule, humanize.Comma(o.Allowed), humanize.Comma(o.Refused), percent(o.Share), humanize.Comma(o.Keys),
			humanize.Comma(o.KeysRefused),
		}
		for k := range o.Bursts {
			cells = append(cells, humanize.Comma(o.Bursts[k].Allowed))
		}
		t.Row(append(cells, show.Duration(o.LongestWait.D()))...)
	}
	return t.String()
}

// ruleKeys returns the keys that a rule refused most.
func ruleKeys(o *replay.Outcome) string {
	text := fmt.Sprintf(
		"%s, by %s: at most %s of one key in %s", show.Text(o.Rule), cmp.Or(show.Text(o.Key), "one key for all"),
		humanize.Comma(o.Own.Allowed), spelled(o.Own.Span),
	)
	if o.WithoutKey > 0 {
		text += fmt.Sprintf("; %s without the key, not counted", lineCount(o.WithoutKey))
	}
	if o.Never > 0 {
		text += fmt.Sprintf("; %s can never pass: they cost more than the limit", humanize.Comma(o.Never))
	}
	if o.Refused == 0 {
		return text + "; nothing refused\n"
	}
	t := command.NewTable(
		"  KEY", ">REQUESTS", ">ALLOWED", ">REFUSED", ">ASKED IN "+spelled(o.Own.Span), ">ALLOWED IN "+spelled(o.Own.Span),
	)
	for _, k := range o.Top {
		if k.Refused == 0 {
			break
		}
		t.Row(
			"  "+cmp.Or(k.Key, "all"), humanize.Comma(k.Requests), humanize.Comma(k.Allowed), humanize.Comma(k.Refused),
			humanize.Comma(k.BurstAsked), humanize.Comma(k.BurstAllowed),
		)
	}
	return text + "\n" + t.String()
}

func queuesTable(r *replay.Report) string {
	t := command.NewTable("QUEUE", ">ACCEPTED", ">REFUSED", ">SHARE", ">DEEPEST", ">WAIT P50", ">P99", ">MAX")
	for i := range r.Queues {
		q := &r.Queues[i]
		t.Row(
			q.Queue, humanize.Comma(q.Accepted), humanize.Comma(q.Refused), percent(q.Share), humanize.Comma(q.Deepest),
			show.Duration(q.WaitP50.D()), show.Duration(q.WaitP99.D()), show.Duration(q.WaitMax.D()),
		)
	}
	return t.String()
}

// spelled returns a duration without zero parts: 1m, not 1m0s.
func spelled(d unit.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if rest, ok := strings.CutSuffix(text, zero); ok {
			text = rest + zero[:1]
		}
	}
	return text
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }
