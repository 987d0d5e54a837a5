package push

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/client"
)

// Appender is the part of the client that a push needs.
type Appender interface {
	Append(ctx context.Context, queue string, jobs [][]byte) ([]client.Answer, error)
}

// Options of a Push.
type Options struct {
	// NoWait reports refused jobs instead of sending them again.
	NoWait bool
	// Batch is the number of jobs per request; 0 means 500.
	Batch int
	// Patience is the time to retry while the server does not answer or cannot decide; 0 means 30 s.
	Patience time.Duration
	// Progress is called after every request and every second of a wait, Problem for every line that was refused or
	// failed, and Taken for every accepted or duplicate line. They run on the pushing goroutine and may be nil.
	Progress func(Count)
	Problem  func(line Line, why string)
	Taken    func(line Line, answer *client.Answer)
}

// Count is the outcome of the lines so far.
type Count struct {
	Read      int // lines that are not blank
	Accepted  int // in the queue
	Deferred  int // on the overflow until there is room
	Duplicate int // already in or deferred
	Refused   int // no room, with NoWait
	Failed    int // invalid
	// Undecided are lines without an answer: to be sent again, interrupted, or not sent.
	Undecided int
	// Refusals is the number of answers that refused a job for lack of room.
	Refusals int
	// Waits is why the push waits: the latest refusal or error. It is empty while the push goes on. Until is when the next
	// lines are sent.
	Waits string
	Until time.Time
}

// maxBatchBytes keeps a request well below what a server can read in a minute.
const maxBatchBytes = 1 << 20

// maxTries is the maximum number of tries of a line on which the server cannot decide.
const maxTries = 10

// Push appends the jobs of a source to a queue. It returns when all are decided, when ctx ends, or at an error that
// would affect all further lines. The Count is always valid.
func Push(ctx context.Context, to Appender, queue string, from Source, o Options) (Count, error) {
	if o.Batch <= 0 {
		o.Batch = 500
	}
	if o.Patience <= 0 {
		o.Patience = 30 * time.Second
	}
	p := &pusher{to: to, queue: queue, from: from, o: o}
	err := p.run(ctx)
	return p.count, err
}

// held is a line to send when due.
type held struct {
	Line
	due   time.Time
	tries int
	// parked means that its lane is full.
	parked bool
	lane   string
	laned  bool // lane is known
}

type pusher struct {
	to    Appender
	queue string
	from  Source
	o     Options

	// held are the undecided lines, in the order of the file.
	held    []held
	ended   bool // the source is at its end
	count   Count
	silent  time.Time // start of the present outage of the server, or zero
	backoff time.Duration
	lanes   bool   // a lane was full
	refusal string // the latest refusal
}

func (p *pusher) run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Read no more while refused lines wait: new lines would be refused too, or overtake them. A full lane holds up
		// only its own lines.
		if p.mayRead() {
			if err := p.read(); err != nil {
				return err
			}
		}
		if len(p.held) == 0 {
			if p.ended {
				return nil
			}
			continue
		}
		batch, wait := p.due()
		if len(batch) == 0 {
			if p.mayRead() {
				continue
			}
			if err := p.pause(ctx, wait, p.refusal); err != nil {
				return err
			}
			continue
		}
		if err := p.send(ctx, batch); err != nil {
			return err
		}
		if p.o.Progress != nil {
			p.o.Progress(p.count)
		}
	}
}

// read reads the next batch into held.
func (p *pusher) read() error {
	bytes := 0
	for most := len(p.held) + p.o.Batch; len(p.held) < most && bytes < maxBatchBytes; {
		line, err := p.from.Next()
		if errors.Is(err, io.EOF) {
			p.ended = true
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d jobs: %w", p.count.Read, err)
		}
		p.count.Read++
		if line.Err != nil {
			p.fail(line, line.Err.Error())
			continue
		}
		p.count.Undecided++
		bytes += len(line.Body)
		p.held = append(p.held, held{Line: line})
	}
	return nil
}

// due returns the indexes of the lines that are due, or the time until the first is.
func (p *pusher) due() (batch []int, wait time.Duration) {
	now := time.Now()
	wait = time.Hour
	bytes := 0
	full := fullLanes{}
	for i := range p.held {
		left := p.held[i].due.Sub(now)
		if full.keep(p.laneOf(&p.held[i]), &p.held[i], left > 0) {
			continue
		}
		if left > 0 {
			wait = min(wait, left)
			continue
		}
		if len(batch) == p.o.Batch || bytes >= maxBatchBytes {
			break
		}
		bytes += len(p.held[i].Body)
		batch = append(batch, i)
	}
	return batch, wait
}

// send sends the lines of a batch and acts on the answers.
func (p *pusher) send(ctx context.Context, batch []int) error {
	jobs := make([][]byte, len(batch))
	for i, at := range batch {
		jobs[i] = p.held[at].Body
	}
	request, cancel := outliving(ctx, time.Minute)
	answers, err := p.to.Append(request, p.queue, jobs)
	cancel()
	if err != nil {
		return p.unanswered(ctx, err)
	}
	p.backoff, p.silent = 0, time.Time{}
	now := time.Now()
	var hopeless error
	for i, at := range batch {
		h := &p.held[at]
		if again, err := p.decide(h, &answers[i], now); err != nil {
			hopeless = err
		} else if !again {
			h.Body = nil // decided
		}
	}
	left := p.held[:0]
	for _, h := range p.held {
		if h.Body != nil {
			left = append(left, h)
		}
	}
	p.held = left
	return hopeless
}

// decide acts on one answer. again means that the line stays held. An error means that all other lines would fail too.
func (p *pusher) decide(h *held, a *client.Answer, now time.Time) (again bool, err error) {
	switch {
	case a.Deferred():
		p.count.Deferred++
		p.taken(h.Line, a)
	case a.Accepted():
		p.count.Accepted++
		p.taken(h.Line, a)
	case a.Duplicate():
		p.count.Duplicate++
		p.taken(h.Line, a)
	case a.Status == http.StatusTooManyRequests:
		p.count.Refusals++
		p.refusal = cmp.Or(a.Detail, a.Reason)
		if !p.o.NoWait {
			h.due = now.Add(a.RetryAfter())
			h.parked = a.Reason == "lane_full"
			p.lanes = p.lanes || h.parked
			return true, nil
		}
		p.count.Refused++
		p.problem(h.Line, a.Why())
	case a.Again():
		h.tries++
		if h.tries < maxTries {
			h.due = now.Add(max(a.RetryAfter(), 250*time.Millisecond<<h.tries))
			h.parked, p.refusal = false, a.Why()
			return true, nil
		}
		p.count.Failed++
		p.problem(h.Line, a.Why())
	case a.Status == http.StatusNotFound:
		return true, &client.Problem{Status: a.Status, Reason: a.Reason, Detail: a.Detail}
	default:
		p.count.Failed++
		p.problem(h.Line, a.Why())
	}
	p.count.Undecided--
	return false, nil
}

// unanswered waits before the same batch is sent again, or gives up. Sending again is safe: jobs that are in count as
// duplicates.
func (p *pusher) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	wait := max(250*time.Millisecond, min(2*p.backoff, 5*time.Second))
	var gone *client.Unreachable
	var refused *client.Problem
	switch {
	case errors.As(err, &gone):
	case errors.As(err, &refused) && refused.Again():
		wait = max(wait, refused.RetryAfter())
	default:
		return err
	}
	p.backoff = wait
	if p.silent.IsZero() {
		p.silent = time.Now()
	}
	if time.Since(p.silent)+wait > p.o.Patience {
		return err
	}
	return p.pause(ctx, wait, err.Error())
}

func (p *pusher) fail(line Line, why string) {
	p.count.Failed++
	p.problem(line, why)
}

func (p *pusher) taken(line Line, a *client.Answer) {
	if p.o.Taken != nil {
		p.o.Taken(line, a)
	}
}

func (p *pusher) problem(line Line, why string) {
	if p.o.Problem != nil {
		p.o.Problem(line, why)
	}
}

// grace is the time for the answer of the last request after an interruption, so that its jobs are counted.
const grace = 2 * time.Second

// outliving returns a context that ends a grace period after ctx, or after limit.
func outliving(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(grace):
			cancel()
		case <-out.Done():
		}
	})
	return out, func() { stop(); cancel() }
}

// progressInterval is the time between two calls of Progress during a wait.
const progressInterval = time.Second

// pause waits, and reports why.
func (p *pusher) pause(ctx context.Context, d time.Duration, why string) error {
	p.count.Waits, p.count.Until = why, time.Now().Add(d)
	defer func() { p.count.Waits, p.count.Until = "", time.Time{} }()
	timer, tick := time.NewTimer(d), time.NewTicker(progressInterval)
	defer timer.Stop()
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-tick.C:
			if p.o.Progress != nil {
				p.o.Progress(p.count)
			}
		}
	}
}
