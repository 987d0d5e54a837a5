package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/unit"
)

// Log is one log, possibly packed by gzip.
type Log struct {
	Name string
	In   io.Reader
}

// Options of a replay.
type Options struct {
	Logs   []Log // merged by their instants
	Rules  []Rule
	Queues []Queue
	// Format is the format of all logs; empty detects the format of each.
	Format string
	// Time is the field of ndjson and csv with the time; empty tries a few usual names.
	Time string
	// TimeFormat is unix, unix_ms, unix_us or a layout of package time; empty tries the usual forms.
	TimeFormat string
	// Zone is the zone of times without a zone; nil means UTC.
	Zone *time.Location
	// Cost is the field with a request's cost; if empty, each costs 1.
	Cost string
	// Spread distributes the requests of each whole second evenly over it.
	Spread bool
	// Limits are optional.
	Limits Limits
}

// Report is the result of a replay.
type Report struct {
	Logs     []string  `json:"logs"`
	Requests int64     `json:"requests"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	// Broken is the number of unreadable lines. Late is the number of lines that came too late to be sorted, and were
	// taken at the latest instant.
	Broken int64 `json:"broken_lines"`
	Late   int64 `json:"late_lines"`
	// Faults has the first broken lines, and the first lines without a key.
	Faults []Fault `json:"faults,omitempty"`
	// WholeSeconds reports that no instant had a fraction. Requests of one second then count as simultaneous, unless
	// spread.
	WholeSeconds bool           `json:"whole_seconds"`
	Spread       bool           `json:"spread"`
	Came         []Burst        `json:"worst_bursts_asked"`
	Rules        []Outcome      `json:"rules"`
	Queues       []QueueOutcome `json:"queues,omitempty"`
	Timeline     Timeline       `json:"timeline"`
}

// Timeline is the replay over time, in steps.
type Timeline struct {
	Step  unit.Duration `json:"step"`
	Steps []Step        `json:"steps"`
}

// Step is one step of a timeline.
type Step struct {
	At       time.Time   `json:"at"`
	Requests int64       `json:"requests"`
	Rules    []RuleStep  `json:"rules"`
	Queues   []QueueStep `json:"queues,omitempty"`
}

// RuleStep is a rule's part of a step.
type RuleStep struct {
	Allowed int64 `json:"allowed"`
	Refused int64 `json:"refused"`
}

// QueueStep is a queue's part of a step. Deepest is the maximum number of waiting jobs.
type QueueStep struct {
	Refused int64 `json:"refused"`
	Deepest int64 `json:"deepest"`
}

// Run replays logs. Its error, except for ctx's, names the log or option that it cannot use.
func Run(ctx context.Context, o Options) (*Report, error) {
	p, err := newPlay(ctx, &o)
	if err != nil {
		return nil, err
	}
	if err := p.run(); err != nil {
		return nil, err
	}
	return p.report()
}

// play is a running replay.
type play struct {
	ctx      context.Context
	options  *Options
	rings    []*keyring
	trials   []*trial
	sims     []*queueSim
	sources  []*source
	faults   faults
	timeline timeline
	came     []window

	begun          bool
	first, now     leaky.Instant
	requests, late int64
	fractions      bool
	decided        leaky.Instant // the latest instant
	second         []request     // the requests of one whole second, to be spread
}

func newPlay(ctx context.Context, o *Options) (*play, error) {
	if len(o.Rules) == 0 && len(o.Queues) == 0 {
		return nil, errors.New("nothing to try: give a rule or a queue")
	}
	p := &play{ctx: ctx, options: o, came: make([]window, len(spans))}
	for i := range o.Rules {
		ring, err := p.ring(o.Rules[i].Key)
		if err != nil {
			return nil, err
		}
		t, err := newTrial(&o.Rules[i], ring)
		if err != nil {
			return nil, err
		}
		p.trials = append(p.trials, t)
	}
	for i := range o.Queues {
		s, err := newQueueSim(&o.Queues[i])
		if err != nil {
			return nil, err
		}
		p.sims = append(p.sims, s)
	}
	p.timeline = timeline{sums: 1 + 2*len(p.trials) + len(p.sims)}
	p.timeline.cols = p.timeline.sums + len(p.sims)
	p.timeline.enter = func(begin leaky.Instant, row []int64) {
		for i, s := range p.sims {
			row[p.timeline.sums+i] = s.depth(begin)
		}
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	for _, log := range o.Logs {
		s, err := openSource(log, p.rings, o, &p.faults)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", log.Name, err)
		}
		s.check = p.check
		p.sources = append(p.sources, s)
	}
	return p, nil
}

// ring returns the index of the keyring of a template; nil means the usual template of the format.
func (p *play) ring(key *string) (int, error) {
	text := ""
	if key != nil {
		text = *key
	}
	for i, r := range p.rings {
		if r.usual == (key == nil) && r.text == text {
			return i, nil
		}
	}
	if len(p.rings) == maxKeys {
		return 0, fmt.Errorf("the rules count by more than %d different keys; try them in turn", maxKeys)
	}
	p.rings = append(p.rings, &keyring{text: text, usual: key == nil, numbers: map[string]uint32{}})
	return len(p.rings) - 1, nil
}

// run merges the sources by their instants.
func (p *play) run() error {
	open := p.sources
	for i := 0; i < len(open); {
		more, err := open[i].more()
		if err != nil {
			return fmt.Errorf("%s: %w", open[i].name, err)
		}
		if more {
			i++
		} else {
			open = slices.Delete(slices.Clone(open), i, i+1)
		}
	}
	for len(open) > 0 {
		first, until := earliest(open)
		s := open[first]
		for s.next < s.sorted && s.requests[s.next].at <= until {
			if err := p.take(s.requests[s.next]); err != nil {
				return err
			}
			s.next++
		}
		if s.next < s.sorted {
			continue
		}
		more, err := s.more()
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if !more {
			open = slices.Delete(slices.Clone(open), first, first+1)
		}
	}
	return p.flush()
}

// earliest returns the source that is next, and the instant until which it stays next.
func earliest(open []*source) (first int, until leaky.Instant) {
	until = lastInstant
	for i, s := range open[1:] {
		at := s.requests[s.next].at
		if before := open[first].requests[open[first].next].at; at < before {
			first, until = i+1, min(until, before)
		} else {
			until = min(until, at)
		}
	}
	return first, until
}

// take handles one request. Requests come in order, except for late ones.
func (p *play) take(r request) error {
	if !p.begun {
		p.begun, p.first, p.now = true, r.at, r.at
	}
	if r.at < p.now {
		p.late++
		r.at = p.now
	}
	p.now = r.at
	whole := r.at%1_000_000 == 0
	p.fractions = p.fractions || !whole
	if !p.options.Spread {
		return p.decide(&r)
	}
	if len(p.second) > 0 && p.second[0].at != r.at {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if !whole {
		return p.decide(&r)
	}
	p.second = append(p.second, r)
	if len(p.second)%checkEvery == 0 {
		return p.check()
	}
	return nil
}

// flush decides the requests of a whole second.
func (p *play) flush() error {
	for i := range p.second {
		r := &p.second[i]
		r.at += leaky.Instant(1_000_000 * int64(i) / int64(len(p.second)))
		if err := p.decide(r); err != nil {
			return err
		}
	}
	p.second = p.second[:0]
	return nil
}

// decide asks all rules and queues about one request.
func (p *play) decide(r *request) error {
	if p.requests++; p.requests%checkEvery == 0 {
		if err := p.check(); err != nil {
			return err
		}
	}
	r.at = max(r.at, p.decided) // a request with a fraction may follow a spread second
	p.decided = r.at
	row := p.timeline.at(r.at)
	row[0]++
	for i := range p.came {
		p.came[i].add(leaky.Instant(spans[i].Microseconds()), r.at, int64(r.cost), 0)
	}
	for i, t := range p.trials {
		if r.keys[t.ring] == noKey {
			continue
		}
		if t.take(r, p.rings[t.ring].names) {
			row[1+2*i]++
		} else {
			row[2+2*i]++
		}
	}
	for i, s := range p.sims {
		if !s.arrive(r.at, int64(r.cost)) {
			row[1+2*len(p.trials)+i]++
		}
		deepest := &row[p.timeline.sums+i]
		*deepest = max(*deepest, s.accepted-s.left)
	}
	return nil
}

func (p *play) report() (*Report, error) {
	f := &p.faults
	if err := p.unusable(); err != nil {
		return nil, err
	}
	r := &Report{
		Requests: p.requests, From: p.first.Time().UTC(), To: p.now.Time().UTC(), Broken: f.brokenLines, Late: p.late,
		Faults: slices.Concat(f.first, f.firstKey), WholeSeconds: !p.fractions, Spread: p.options.Spread, Rules: []Outcome{},
	}
	for _, s := range p.sources {
		r.Logs = append(r.Logs, s.name)
	}
	for i := range p.came {
		b := p.came[i].burst(spans[i])
		r.Came = append(r.Came, b)
	}
	for _, t := range p.trials {
		r.Rules = append(r.Rules, t.outcome(p.rings[t.ring], f.withoutKey[t.ring]))
	}
	for _, s := range p.sims {
		o, err := s.outcome(p.check)
		if err != nil {
			return nil, err
		}
		r.Queues = append(r.Queues, o)
	}
	r.Timeline = p.steps()
	return r, nil
}

// unusable returns an error for logs without a usable line.
func (p *play) unusable() error {
	f := &p.faults
	names := make([]string, 0, len(p.sources))
	for _, s := range p.sources {
		names = append(names, s.name)
	}
	logs := cut(strings.Join(names, ", "), 100)
	switch {
	case f.brokenLines > 0 && f.read == 0:
		return fmt.Errorf(
			"%s: none of %d lines can be used; line %d of %s %s", logs, f.brokenLines, f.first[0].Line, f.first[0].Log,
			f.first[0].Why,
		)
	case f.read == 0:
		return fmt.Errorf("%s: no line to replay", logs)
	}
	for _, t := range p.trials {
		if t.requests == 0 {
			return fmt.Errorf("%s: none of %d lines has the key of the rule %s, %s; line %d of %s %s",
				logs, f.read, t.rule.Label, p.rings[t.ring].text, f.firstKey[0].Line, f.firstKey[0].Log, f.firstKey[0].Why)
		}
	}
	return nil
}

// cut shortens a text for an error.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

func (p *play) steps() Timeline {
	t := &p.timeline
	out := Timeline{Step: unit.Duration(time.Duration(widths[t.width]) * time.Microsecond)}
	for i, row := range t.rows {
		step := Step{At: (t.start + leaky.Instant(i)*widths[t.width]).Time().UTC(), Requests: row[0], Rules: []RuleStep{}}
		for k := range p.trials {
			step.Rules = append(step.Rules, RuleStep{row[1+2*k], row[2+2*k]})
		}
		for k := range p.sims {
			step.Queues = append(step.Queues, QueueStep{row[1+2*len(p.trials)+k], row[t.sums+k]})
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}
