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

// Options of a Push. Zero fields mean what is said beside them.
type Options struct {
	// NoWait reports refused jobs instead of coming back with them.
	NoWait bool
	// Batch is how many jobs travel in one request. 0 means 500.
	Batch int
	// Patience is how long to go on trying while the server gives no answer, or
	// none that helps. 0 means 30 s.
	Patience time.Duration
	// Progress is told the count after every request, and every second of a wait, Problem of every line
	// that was refused for good or failed, Taken of every one that is in. They
	// run on the pushing goroutine.
	Progress func(Count)
	Problem  func(line Line, why string)
	Taken    func(line Line, answer *client.Answer)
}

// Count says what became of the lines so far.
type Count struct {
	Read      int // lines with something in them
	Accepted  int // are in the queue
	Deferred  int // wait on the overflow until there is room
	Duplicate int // were in already, or deferred
	Refused   int // no room, and not waited for
	Failed    int // cannot be taken
	// Undecided is what was read but not answered: refused for now, under way
	// when the push was broken off, or not sent.
	Undecided int
	// Refusals is how often the answer was that there is no room.
	Refusals int
	// Waits is why nothing goes on at the moment, empty while something does: what the latest refusal said, or that no
	// answer came. Until is when the next lines are sent again.
	Waits string
	Until time.Time
}

// maxBatchBytes keeps a request well below what a server reads in a minute.
const maxBatchBytes = 1 << 20

// maxTries is how often a line is sent on which the server cannot decide.
const maxTries = 10

// Push sends the jobs of a source to a queue. It returns when all of them are
// decided, with ctx's error when that ended before, or with the error that
// makes going on useless; the Count is true in every case.
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

// held is a line that is to be sent at due.
type held struct {
	Line
	due   time.Time
	tries int
	// parked is of a line whose lane is full, or that is behind such a one.
	parked bool
	lane   string
	laned  bool // lane was read
}

type pusher struct {
	to    Appender
	queue string
	from  Source
	o     Options

	// held are the lines that are not decided, in the order of the file.
	held    []held
	ended   bool // the source has no more
	count   Count
	silent  time.Time // since when the server has not been answering; zero while it does
	backoff time.Duration
	lanes   bool   // some lane was full
	refusal string // what the latest refusal said
}

func (p *pusher) run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Nothing new is read while something is refused: new lines would only
		// be refused too, or overtake. A full lane keeps only its own lines.
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

// read fills held with the next batch.
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

// due returns the indexes of the held lines whose time has come, or how long
// it is until the first.
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

// send sends the held lines named by batch and acts on the answers.
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

// decide acts on one answer: again is true if the line stays held. The error
// says that nothing else of the file will be taken either.
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
		p.tell(h.Line, a.Why())
	case a.Again():
		h.tries++
		if h.tries < maxTries {
			h.due = now.Add(max(a.RetryAfter(), 250*time.Millisecond<<h.tries))
			h.parked, p.refusal = false, a.Why()
			return true, nil
		}
		p.count.Failed++
		p.tell(h.Line, a.Why())
	case a.Status == http.StatusNotFound:
		return true, &client.Problem{Status: a.Status, Reason: a.Reason, Detail: a.Detail}
	default:
		p.count.Failed++
		p.tell(h.Line, a.Why())
	}
	p.count.Undecided--
	return false, nil
}

// unanswered waits before the same batch is sent again, or gives up. The ids
// make it safe: what was in nevertheless answers duplicate.
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
	p.tell(line, why)
}

func (p *pusher) taken(line Line, a *client.Answer) {
	if p.o.Taken != nil {
		p.o.Taken(line, a)
	}
}

func (p *pusher) tell(line Line, why string) {
	if p.o.Problem != nil {
		p.o.Problem(line, why)
	}
}

// grace is how long a request under way may still be answered after the push
// was broken off, so that what it brought in is counted.
const grace = 2 * time.Second

// outliving returns a context that ends a grace after ctx does, or after limit.
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

// toldEvery is how often a wait is told of.
const toldEvery = time.Second

// pause waits, and tells why while it does.
func (p *pusher) pause(ctx context.Context, d time.Duration, why string) error {
	p.count.Waits, p.count.Until = why, time.Now().Add(d)
	defer func() { p.count.Waits, p.count.Until = "", time.Time{} }()
	timer, tick := time.NewTimer(d), time.NewTicker(toldEvery)
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
