package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"sync"
	"time"
)

const (
	maxChunkJobs  = 1000
	maxChunkBytes = 1 << 20
	linger        = 5 * time.Millisecond // how long a job waits for others to be sent with it
)

// StreamOptions are options of AppendStream.
type StreamOptions struct {
	// InFlight is how many jobs the stream holds at most, without their results. The default is 1,000.
	InFlight int
	// RetryFor is how long a job that is refused with 429 or 503 is sent again. The default is 1 minute; less than 0 is
	// never.
	RetryFor time.Duration
}

// AppendStream appends the jobs of a sequence of any length, and yields a result for each, in the order of the answers.
// The error is that of the job; the stream goes on. The next job is taken from the sequence when there is room for it,
// in another goroutine. Jobs without an answer are sent again with the same ids. When ctx ends, so does the stream: the
// jobs under way have its error, and so has a last result without a job.
func (c *Client) AppendStream(
	ctx context.Context, queue string, jobs iter.Seq[Job], options ...StreamOptions,
) iter.Seq2[Appended, error] {
	o := lastOf(options)
	return func(yield func(Appended, error) bool) {
		for e := range newStream(ctx, c, queue, o).run(jobs) {
			if e == nil {
				yield(Appended{}, ctx.Err())
				return
			}
			if !yield(e.result, e.result.Err) {
				return
			}
		}
	}
}

// entry is a job of a stream.
type entry struct {
	number int // in the sequence, from 0
	text   []byte
	id     string
	first  time.Time // when it was first sent
	due    time.Time // when it may be sent, or sent again
	tries  int
	result Appended
}

// stream is a run of AppendStream. Its source fills ready, its senders empty it into done or later, and the caller
// takes the results from done.
type stream struct {
	c        *Client
	queue    string
	inFlight int
	retryFor time.Duration
	requests int // maximum number under way
	ctx      context.Context
	cancel   context.CancelFunc

	mu      sync.Mutex
	changed *sync.Cond
	ready   []*entry // to be sent
	later   []*entry // to be sent again when they are due
	done    []*entry // with results
	held    int      // jobs without results that the caller has
	ended   bool     // the sequence is over
	full    bool     // no job is taken from it now
	sending int      // requests under way
	broken  int      // requests in a row that got no answer
	alarm   *time.Timer
}

func newStream(ctx context.Context, c *Client, queue string, o StreamOptions) *stream {
	s := &stream{c: c, queue: queue, inFlight: o.InFlight, retryFor: o.RetryFor, requests: 2}
	if s.inFlight <= 0 {
		s.inFlight = maxChunkJobs
	}
	if s.retryFor == 0 {
		s.retryFor = time.Minute
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.changed = sync.NewCond(&s.mu)
	return s
}

// run yields the entries with their results. If the context ends, the last one is nil.
func (s *stream) run(jobs iter.Seq[Job]) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		defer s.cancel()
		var sending sync.WaitGroup
		defer sending.Wait()
		defer func() {
			s.cancel()
			s.wake()
		}()
		defer context.AfterFunc(s.ctx, s.wake)()
		s.alarm = time.AfterFunc(time.Hour, s.wake)
		defer s.alarm.Stop()
		go s.feed(jobs)
		for range s.requests {
			sending.Go(s.send)
		}
		for {
			results, over := s.results()
			for _, e := range results {
				if !yield(e) {
					return
				}
				s.mu.Lock()
				if s.held--; s.held == s.low() {
					s.changed.Broadcast()
				}
				s.mu.Unlock()
			}
			if over {
				if s.ctx.Err() != nil {
					yield(nil)
				}
				return
			}
		}
	}
}

func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// results waits for results, or for the end.
func (s *stream) results() (results []*entry, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.ctx.Err() != nil { // what was not sent will not be; senders return the rest
			for _, e := range append(s.ready, s.later...) {
				s.fail(e, s.ctx.Err())
			}
			s.ready, s.later = nil, nil
		}
		if results = s.done; len(results) > 0 {
			s.done = nil
			return results, false
		}
		if s.held == 0 && (s.ended || s.ctx.Err() != nil) {
			return nil, true
		}
		s.changed.Wait()
	}
}

// fail ends a job with an error. The caller holds the mutex.
func (s *stream) fail(e *entry, err error) {
	var p *Problem
	if errors.As(err, &p) { // it may be of a whole request
		own := *p
		own.ID = e.id
		err = &own
	}
	e.result = Appended{ID: e.id, Err: err}
	s.done = append(s.done, e)
	s.changed.Broadcast()
}

// low is how many jobs are left when a full stream takes further ones. To take them one by one would make small
// requests.
func (s *stream) low() int { return s.inFlight * 3 / 4 }

// enough is how many jobs are worth a request of their own, without waiting for others.
func (s *stream) enough() int {
	most := min(s.inFlight, maxChunkJobs)
	if s.requests == 1 {
		return most
	}
	return max(1, most/4)
}

// feed takes jobs from the sequence while there is room.
func (s *stream) feed(jobs iter.Seq[Job]) {
	number := 0
	for job := range jobs {
		text, id, err := encodeJob(job)
		e := &entry{number: number, text: text, id: id, due: time.Now()}
		number++
		s.mu.Lock()
		if s.ctx.Err() == nil {
			s.held++
			if err != nil {
				s.fail(e, err)
			} else {
				s.ready = append(s.ready, e)
				if n := len(s.ready); n == 1 || n >= s.enough() {
					s.changed.Broadcast()
				}
			}
		}
		if s.full = s.held >= s.inFlight; s.full {
			s.changed.Broadcast()
			for s.held > s.low() && s.ctx.Err() == nil {
				s.changed.Wait()
			}
			s.full = false
		}
		over := s.ctx.Err() != nil
		s.mu.Unlock()
		if over {
			break
		}
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.changed.Broadcast()
}

// send sends what is ready until the stream ends.
func (s *stream) send() {
	for chunk := s.next(); chunk != nil; chunk = s.next() {
		lines := make([][]byte, len(chunk))
		now := time.Now()
		for i, e := range chunk {
			lines[i] = e.text
			if e.tries++; e.first.IsZero() {
				e.first = now
			}
		}
		answered := make([]bool, len(chunk))
		var answers []*entry
		flush := func() {
			s.mu.Lock()
			if len(answers) > 0 {
				s.broken = 0
			}
			s.done = append(s.done, answers...)
			answers = nil
			s.mu.Unlock()
			s.changed.Broadcast()
		}
		err := s.c.exchange(s.ctx, s.queue, lines, func(i int, l *Line, more bool) {
			answered[i] = true
			if e := chunk[i]; l.Accepted() || l.Duplicate() {
				e.result = Appended{ID: e.id, State: l.State, Position: l.Position, ETA: l.ETA, Duplicate: l.Duplicate()}
				answers = append(answers, e)
			} else {
				s.refused(e, l.problem())
			}
			if !more {
				flush()
			}
		})
		flush()
		s.mu.Lock()
		s.sending--
		s.mu.Unlock()
		if err != nil {
			s.unanswered(chunk, answered, err)
		}
	}
}

// next waits for jobs to send. While a request is under way, a few jobs wait for others to come. It returns nil at the
// end of the stream.
func (s *stream) next() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.ctx.Err() == nil {
		now := time.Now()
		wait := s.promote(now)
		bytes, n := 0, 0
		for n < len(s.ready) && n < maxChunkJobs && (n == 0 || bytes+len(s.ready[n].text) <= maxChunkBytes) {
			bytes += len(s.ready[n].text) + 1
			n++
		}
		if n > 0 {
			wait = min(wait, linger-now.Sub(s.ready[0].due))
		}
		if n > 0 && (s.sending == 0 && (s.ended || s.full || wait <= 0) || n >= s.enough() || bytes >= maxChunkBytes/4) {
			chunk := s.ready[:n:n]
			s.ready = s.ready[n:]
			s.sending++
			return chunk
		}
		if wait > 0 {
			s.alarm.Reset(wait)
		}
		s.changed.Wait()
	}
	return nil
}

// promote makes jobs ready that are due, and returns the time until the next one is.
func (s *stream) promote(now time.Time) (soonest time.Duration) {
	left := s.later[:0]
	soonest = time.Hour
	for _, e := range s.later {
		wait := e.due.Sub(now)
		if wait <= 0 {
			s.ready = append(s.ready, e)
			continue
		}
		left = append(left, e)
		soonest = min(soonest, wait)
	}
	clear(s.later[len(left):])
	s.later = left
	return soonest
}

// refused sends a job again later, or ends it.
func (s *stream) refused(e *entry, p *Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := p.RetryAfter()
	if pause == 0 {
		pause = pauseAfter(p, e.tries)
	}
	e.due = time.Now().Add(pause)
	again := p.Again() || p.Status == http.StatusBadGateway
	if !again || e.due.Sub(e.first) > s.retryFor {
		s.fail(e, p)
		return
	}
	s.later = append(s.later, e)
	s.changed.Broadcast()
}

// unanswered sends jobs without answers again, or ends them, after their request broke or was refused as a whole.
func (s *stream) unanswered(chunk []*entry, answered []bool, err error) {
	s.mu.Lock()
	s.broken++
	pause := pauseAfter(err, s.broken)
	s.mu.Unlock()
	var gone *Unreachable
	broke := errors.As(err, &gone)
	told := false
	due := time.Now().Add(pause) // of all, so that they are sent together again
	for i, e := range chunk {
		var p *Problem
		switch {
		case answered[i]:
		case errors.As(err, &p) && (p.Again() || p.Status == http.StatusBadGateway) && s.retryFor > 0:
			s.refused(e, p)
		default:
			e.due = due
			again := s.ctx.Err() == nil && s.c.tries > 1 && (broke || repeatable(err)) &&
				(e.tries < s.c.tries || e.due.Sub(e.first) <= s.retryFor)
			s.mu.Lock()
			if again {
				s.later = append(s.later, e)
				s.changed.Broadcast()
			} else {
				s.fail(e, err)
			}
			s.mu.Unlock()
			if again && !told {
				told = true
				s.c.tell(Notice{Kind: NoticeRetry, Queue: s.queue, ID: e.id, Attempt: e.tries, Err: err, Pause: pause})
			}
		}
	}
}
