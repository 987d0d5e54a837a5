// Package demo pushes a few hundred messages through a small queue, faster than its rate, and judges the arrivals.
// Without room, messages that may wait are deferred; others are refused and sent again.
//
// It promises to end within Limit, and to report success only if every message was accepted and arrived exactly once,
// all deferred messages were readmitted, and the window law held. It does not know how the queue is run: it talks HTTP
// to an ingress.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/cli/push"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/prove"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// Settings of the demo. 400 messages at 25/s take 16 s; they are offered at three times the rate, so that the queue is
// full after a second.
const (
	QueueName = "demo"
	Capacity  = 50
	Slack     = queue.LeastSlack
	// Delta is the tolerance for the way to the receiver.
	Delta = 5 * time.Millisecond
	// Limit is the maximum duration of the demo.
	Limit = 28 * time.Second

	producers = 4
	batch     = 4
)

// Outflow is the rate of the queue, Offered the rate of its producers.
var (
	Outflow = leaky.PerSecond(25)
	Offered = leaky.PerSecond(75)
)

// Options of a run. Zero fields mean the constants.
type Options struct {
	Client   *client.Client
	Messages []byte // NDJSON
	Outflow  leaky.Rate
	Offered  leaky.Rate
	Capacity int64
	Limit    time.Duration
	// MayWait are the prefixes of the ids of messages that may be deferred.
	MayWait []string
	// Receiver are the options of the receiver; the zero value accepts everything.
	Receiver receiver.Options
	// Watch gets a Scene ten times per second, and once at the end.
	Watch func(Scene)
}

func (o *Options) normalize() {
	if o.Outflow.Unlimited() {
		o.Outflow = Outflow
	}
	if o.Offered.Unlimited() {
		o.Offered = Offered
	}
	if o.Capacity == 0 {
		o.Capacity = Capacity
	}
	if o.Limit == 0 {
		o.Limit = Limit
	}
	if o.Watch == nil {
		o.Watch = func(Scene) {}
	}
}

// Report is the outcome of a demo.
type Report struct {
	Messages int `json:"messages"`
	// Refused is the number of 429 answers; those messages were sent again.
	Refused int `json:"refused"`
	// Deferred is the number of messages put on the overflow, Readmitted the number that returned.
	Deferred   int `json:"deferred"`
	Readmitted int `json:"readmitted"`
	// Failed is the number of messages that could not be appended.
	Failed int `json:"failed"`
	prove.Account
	Rate string          `json:"rate"`
	Law  prove.LawReport `json:"law"`
	Took time.Duration   `json:"took_ns"`

	Held   bool     `json:"held"`
	Broken []string `json:"broken"`
}

// run is the state that producers and the watcher share.
type run struct {
	o     Options
	rec   *receiver.Receiver
	start time.Time

	mu       sync.Mutex
	counts   [producers]push.Count
	stats    wire.Stats // of the queue, when last read
	accepted []string
	faults   []string
}

// Run runs the demo. An error means that there is no verdict.
func Run(ctx context.Context, o Options) (*Report, error) {
	o.normalize()
	rec, err := receiver.Listen(o.Receiver)
	if err != nil {
		return nil, err
	}
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	var receiving sync.WaitGroup
	receiving.Go(func() { _ = rec.Serve(serving) }) // if it fails, the report counts lost messages
	defer receiving.Wait()
	defer stopServing()

	d := &run{o: o, rec: rec, start: time.Now()}
	if err := d.createQueue(ctx); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	if err := d.flow(limited); err != nil && limited.Err() == nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return d.report(), nil
}

func (d *run) createQueue(ctx context.Context) error {
	deliver, err := json.Marshal(map[string]any{"http": map[string]any{"url": d.rec.URL() + "/messages", "timeout": "5s"}})
	if err != nil {
		return fmt.Errorf("encode the target as JSON: %w", err)
	}
	spec := queue.Spec{
		Name: QueueName, Rate: d.o.Outflow, Capacity: d.o.Capacity, Slack: unit.Duration(Slack), Deliver: deliver,
	}
	spec.Normalize()
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode the spec as JSON: %w", err)
	}
	if _, err := d.o.Client.Put(ctx, QueueName, text, client.Absent); err != nil {
		return fmt.Errorf("create the queue: %w", err)
	}
	return nil
}

// flow pushes all messages, shows scenes, and waits until the queue is empty.
func (d *run) flow(ctx context.Context) error {
	from, err := push.Open(bytes.NewReader(d.o.Messages), push.NDJSON)
	if err != nil {
		return err
	}
	paced := &pacedSource{ctx: ctx, from: &patientSource{from, d.o.MayWait}, every: d.o.Offered.Interval()}
	pushed := make(chan error, producers)
	for i := range producers {
		go func() { pushed <- d.produce(ctx, i, paced) }()
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var problems []error
	film := film{}
	running := producers
	for {
		select {
		case err := <-pushed:
			running--
			problems = append(problems, err)
			continue
		case <-tick.C:
		}
		q, err := d.o.Client.Queue(ctx, QueueName)
		if err == nil {
			d.o.Watch(film.scene(d.snapshot(q.Stats)))
		}
		if running == 0 && (ctx.Err() != nil || err == nil && q.Stats.Size()+q.Stats.Deferred == 0) {
			return errors.Join(problems...)
		}
	}
}

// produce is one producer. It takes messages from the common source, and sends refused ones again.
func (d *run) produce(ctx context.Context, i int, from push.Source) error {
	count, err := push.Push(ctx, d.o.Client, QueueName, from, push.Options{
		Batch: batch,
		Progress: func(n push.Count) {
			d.mu.Lock()
			d.counts[i] = n
			d.mu.Unlock()
		},
		Taken: func(line push.Line, _ *client.Answer) {
			d.mu.Lock()
			d.accepted = append(d.accepted, line.ID)
			d.mu.Unlock()
		},
		Problem: func(line push.Line, why string) {
			d.mu.Lock()
			d.faults = append(d.faults, fmt.Sprintf("line %d: %s", line.Number, why))
			d.mu.Unlock()
		},
	})
	d.mu.Lock()
	d.counts[i] = count
	d.mu.Unlock()
	return err
}

func (d *run) snapshot(stats wire.Stats) snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats = stats
	s := snapshot{
		at: time.Since(d.start), held: stats.Size(), deferred: stats.Deferred, capacity: d.o.Capacity, rate: d.o.Outflow,
		now: d.rec.Now(),
	}
	for _, n := range d.counts {
		s.offered += n.Read
		s.accepted += n.Accepted + n.Deferred
		s.setAside += n.Deferred
		s.refused += n.Refusals
		s.waiting += n.Undecided
	}
	s.arrivals = d.rec.Arrivals(0)
	return s
}

func (d *run) report() *Report {
	d.mu.Lock()
	defer d.mu.Unlock()
	arrivals := d.rec.Arrivals(0)
	at := make([]time.Duration, len(arrivals))
	for i, a := range arrivals {
		at[i] = a.At
	}
	r := &Report{
		Account: prove.Settle(d.accepted, arrivals),
		Rate:    d.o.Outflow.String(),
		Law:     prove.Judge(law.Law{Rate: d.o.Outflow, Slack: Slack, Delta: Delta}, at),
		Took:    time.Since(d.start),
	}
	r.Messages, _ = push.CountLines(bytes.NewReader(d.o.Messages), push.NDJSON) // reading memory never fails
	for _, n := range d.counts {
		r.Refused += n.Refusals
		r.Deferred += n.Deferred
		r.Failed += n.Failed
	}
	r.Readmitted = int(d.stats.Returned)
	r.conclude(d.faults)
	return r
}

func (r *Report) conclude(faults []string) {
	r.Broken = []string{}
	broken := func(format string, args ...any) { r.Broken = append(r.Broken, fmt.Sprintf(format, args...)) }
	if r.Messages == 0 || r.Delivered == 0 {
		broken("nothing was delivered")
	}
	if r.Accepted != r.Messages {
		broken("only %d of %d messages were accepted in time", r.Accepted, r.Messages)
	}
	for _, f := range faults[:min(len(faults), 5)] {
		broken("%s", f)
	}
	if r.Deferred != r.Readmitted {
		broken("%d messages were deferred, but %d were readmitted", r.Deferred, r.Readmitted)
	}
	if r.Lost > 0 {
		broken("%d accepted messages never arrived, such as %v", r.Lost, r.LostIDs)
	}
	if r.Twice > 0 {
		broken("%d arrivals were duplicates", r.Twice)
	}
	if r.Strangers > 0 {
		broken("%d arrivals were not accepted messages, such as %v", r.Strangers, r.StrangerIDs)
	}
	if !r.Law.Held {
		broken(
			"the window law: %d starts in %v, but %d are allowed", r.Law.Worst.Starts, r.Law.Worst.Width, r.Law.Worst.Allowed,
		)
	}
	r.Held = len(r.Broken) == 0
}

// patientSource marks the messages that may be deferred.
type patientSource struct {
	push.Source
	prefixes []string
}

func (s *patientSource) Next() (push.Line, error) {
	line, err := s.Source.Next()
	if err != nil || line.Err != nil || !slices.ContainsFunc(s.prefixes, func(p string) bool {
		return strings.HasPrefix(line.ID, p)
	}) {
		return line, err
	}
	// The object has an id, so another member follows the new one.
	line.Body = append([]byte(`{"overflow":"defer",`), line.Body[1:]...)
	return line, nil
}

// pacedSource yields messages at a steady rate, to all producers.
type pacedSource struct {
	ctx   context.Context
	every time.Duration

	mu   sync.Mutex
	from push.Source
	next time.Time
}

func (s *pacedSource) Next() (push.Line, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait := time.Until(s.next); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-s.ctx.Done():
			return push.Line{}, s.ctx.Err()
		case <-timer.C:
		}
	}
	s.next = time.Now().Add(s.every)
	return s.from.Next()
}
