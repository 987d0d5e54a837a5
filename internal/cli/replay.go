package cli

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

	"github.com/penstock/penstock/internal/cli/outfile"
	"github.com/penstock/penstock/internal/replay"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

type replayCmd struct {
	Log        []string `required:"" sep:"none" placeholder:"FILE"`
	Rule       []string `sep:"none" placeholder:"RULE"`
	Queue      []string `sep:"none" placeholder:"TEXT"`
	Key        *string  `placeholder:"TEMPLATE"`
	Cost       string   `help:"The field that says what a request costs; by default each costs 1." placeholder:"FIELD"`
	Format     string   `enum:",combined,ndjson,csv" default:"" placeholder:"FORMAT"`
	Time       string   `placeholder:"FIELD"`
	TimeFormat string   `placeholder:"LAYOUT"`
	Timezone   string   `default:"UTC" placeholder:"ZONE"`
	Spread     bool     `help:"Put the requests of one whole second evenly into it, instead of all at its beginning."`
	Chart      string   `placeholder:"FILE"`
	output
}

// LongHelp is the help that is too long for the tags.
func (replayCmd) LongHelp() map[string]string {
	return map[string]string{
		"log": "Log file, packed by gzip or not; - reads standard input. May be given several times: they are " +
			"merged by time.",
		"rule": `A rule to try, such as "meter rate=5/s burst=10", or a YAML or JSON file of rules. May be given ` +
			"several times.",
		"queue": `A queue to try, such as "rate=14/s capacity=1000 burst=1". May be given several times.`,
		"key": "By what of a line rules count: a field, or fields in braces such as {remote_addr}:{path}; empty " +
			"is all under one. By default {remote_addr} of combined logs, all under one of others.",
		"format": "combined, ndjson or csv; by default the log tells.",
		"time": "The field of ndjson or csv that says when; by default one called time, timestamp, @timestamp, ts, " +
			"date or at.",
		"time-format": "How that is written: unix, unix_ms, unix_us, or as Go writes 2 January 2006 15:04:05; by default " +
			"the usual ways are tried.",
		"timezone": "The zone of times that say none, such as Europe/Berlin.",
		"chart":    "Draw what happened over time into this file, an .html page that needs nothing else.",
	}
}

// Help is shown below the flags.
func (replayCmd) Help() string {
	return `Runs the requests of logs through rules and queues, without a server: what would have been
allowed and refused, and which keys were hit? Several rules are tried at once, on the same requests.

Formats: the combined and common logs of web servers, with the fields remote_addr, user,
method, path, query, protocol, status, bytes, header.Referer and header.User-Agent; NDJSON, with
fields such as /user/id (JSON pointers); CSV with the names of the columns in its first line.

Rules are written as in files of rules, key={path} giving one another key than --key. Of concurrency
each holds its place for the ttl:
` + sampleRules() + `
Examples:
  penstock replay --log access.log --rule "meter rate=5/s burst=10" --rule "meter rate=5/s burst=50"
  penstock replay --log access.log --log access.log.1.gz --rule rules.yaml --chart what-if.html
  penstock replay --log calls.ndjson --key /tenant --cost /units --rule "sliding_log limit=1000 period=1h"
  zcat mail.csv.gz | penstock replay --log - --key "{tenant}:{route}" --queue "rate=14/s capacity=1000"

Exit codes: 0 done; 2 an option cannot be understood, or a log of which no line can be used; 130
broken off.`
}

// sampleNumbers has one of each that a rule may go by.
var sampleNumbers = map[string]string{
	"rate": "5/s", "burst": "10", "limit": "100", "period": "1m", "resolution": "1s", "ttl": "30s",
}

// sampleRules has a rule of each algorithm, with all numbers that it goes by.
func sampleRules() string {
	var list strings.Builder
	for _, a := range rules.Algorithms() {
		fmt.Fprintf(&list, "  %-15s", a)
		for _, number := range rules.Numbers(a) {
			fmt.Fprintf(&list, " %s=%s", number, sampleNumbers[number])
		}
		list.WriteByte('\n')
	}
	return list.String()
}

func (c *replayCmd) Run(r *run) error {
	options, err := c.options()
	if err != nil {
		return usage(err)
	}
	if c.Chart != "" {
		if err := outfile.CheckReplace(c.Chart); err != nil {
			return usage(fmt.Errorf("--chart: %w", err))
		}
	}
	bar := newReadBar(r.Err)
	defer bar.end()
	for _, name := range c.Log {
		in, size, err := openLog(r, name)
		if err != nil {
			return usage(err)
		}
		defer func() { _ = in.Close() }()
		if name == "-" {
			name = "standard input"
		}
		options.Logs = append(options.Logs, replay.Log{Name: name, In: bar.watch(in, size)})
	}
	report, err := replay.Run(r.ctx, options)
	bar.end()
	switch {
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	case err != nil:
		return usage(err)
	}
	if c.Chart != "" {
		picture, err := report.Chart()
		if err != nil {
			return err
		}
		err = outfile.Replace(r.ctx, c.Chart, 0o644, func(w io.Writer) error {
			_, err := w.Write(picture)
			return err
		})
		if err != nil {
			return fmt.Errorf("write the chart: %w", err)
		}
	}
	for _, f := range report.Faults {
		r.say("%s:%d: %s", plain(f.Log), f.Line, plain(f.Why))
	}
	if c.json() {
		return printJSON(r.Out, report)
	}
	return printReplay(r.Out, report)
}

func (c *replayCmd) options() (o replay.Options, err error) {
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
			"give something to try: --rule \"meter rate=5/s burst=10\", or --queue \"rate=14/s capacity=1000\"",
		)
	}
	if o.Zone, err = time.LoadLocation(c.Timezone); err != nil {
		return o, fmt.Errorf("--timezone %q: is no zone of the IANA database, such as Europe/Berlin", c.Timezone)
	}
	if c.Chart != "" {
		err = replay.CheckChart(c.Chart)
	}
	if i := slices.Index(c.Log, "-"); i >= 0 && slices.Contains(c.Log[i+1:], "-") {
		err = errors.New("--log: - is given twice, and standard input can be read once")
	}
	return o, err
}

// openLog returns a log and its size, -1 if that is not known.
func openLog(r *run, name string) (io.ReadCloser, int64, error) {
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
		short(r.To.Sub(r.From)),
	)
	if r.Broken > 0 {
		line += fmt.Sprintf("; %s cannot be read", lineCount(r.Broken))
	}
	if r.Late > 0 {
		line += fmt.Sprintf("; %s came too late and were taken at the latest instant", lineCount(r.Late))
	}
	_, err := fmt.Fprintf(w, "%s\nat most came %s\n", line, burstsOf(
		r.Came, func(b *replay.Burst) int64 { return b.Asked },
	))
	if r.WholeSeconds && !r.Spread {
		_, err = fmt.Fprintln(
			w,
			"the log tells whole seconds: those of one are taken as at once, the hardest case; --spread puts them evenly "+
				"into it",
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
	t := table{
		header: []string{"RULE", "ALLOWED", "REFUSED", "SHARE", "KEYS", "HIT"},
		right:  map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true},
	}
	for i, b := range r.Rules[0].Bursts {
		t.header = append(t.header, "IN "+spelled(b.Span))
		t.right[6+i] = true
	}
	t.header = append(t.header, "LONGEST WAIT")
	t.right[len(t.header)-1] = true
	for i := range r.Rules {
		o := &r.Rules[i]
		cells := []string{
			plain(o.Rule), humanize.Comma(o.Allowed), humanize.Comma(o.Refused), percent(o.Share), humanize.Comma(o.Keys),
			humanize.Comma(o.KeysRefused),
		}
		for k := range o.Bursts {
			cells = append(cells, humanize.Comma(o.Bursts[k].Allowed))
		}
		t.add(append(cells, short(o.LongestWait.D()))...)
	}
	return t.String()
}

// ruleKeys says which keys a rule hit most.
func ruleKeys(o *replay.Outcome) string {
	text := fmt.Sprintf(
		"%s, by %s: at most %s of one key in %s", plain(o.Rule), cmp.Or(plain(o.Key), "one key for all"),
		humanize.Comma(o.Own.Allowed), spelled(o.Own.Span),
	)
	if o.WithoutKey > 0 {
		text += fmt.Sprintf("; %s without the key not counted", lineCount(o.WithoutKey))
	}
	if o.Never > 0 {
		text += fmt.Sprintf("; %s can never pass, for they cost more than the limit", humanize.Comma(o.Never))
	}
	if o.Refused == 0 {
		return text + "; nothing refused\n"
	}
	t := table{
		header: []string{
			"  KEY", "REQUESTS", "ALLOWED", "REFUSED", "ASKED IN " + spelled(o.Own.Span), "ALLOWED IN " + spelled(o.Own.Span),
		},
		right: map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true},
	}
	for _, k := range o.Top {
		if k.Refused == 0 {
			break
		}
		t.add(
			"  "+plain(cmp.Or(k.Key, "all")), humanize.Comma(k.Requests), humanize.Comma(k.Allowed), humanize.Comma(k.Refused),
			humanize.Comma(k.BurstAsked), humanize.Comma(k.BurstAllowed),
		)
	}
	return text + "\n" + t.String()
}

func queuesTable(r *replay.Report) string {
	t := table{
		header: []string{"QUEUE", "ACCEPTED", "REFUSED", "SHARE", "DEEPEST", "WAIT P50", "P99", "MAX"},
		right:  map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true},
	}
	for i := range r.Queues {
		q := &r.Queues[i]
		t.add(
			plain(q.Queue), humanize.Comma(q.Accepted), humanize.Comma(q.Refused), percent(q.Share), humanize.Comma(q.Deepest),
			short(q.WaitP50.D()), short(q.WaitP99.D()), short(q.WaitMax.D()),
		)
	}
	return t.String()
}

// spelled writes 1m0s as 1m.
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
