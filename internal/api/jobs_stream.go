package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// stream is one NDJSON request, answered while it is read. The request's
// goroutine reads lines into a batch; a second one appends the batch that was
// filled meanwhile and writes its answers. So a lone line is answered at once,
// a flood travels in full batches, and what is held is two batches and a line,
// however many lines there are.
type stream struct {
	h     *handler
	w     http.ResponseWriter
	r     *http.Request
	rc    *http.ResponseController
	queue string
	app   string // whose jobs come; empty is the operator's

	account *ops.Account
	env     *envelope
	lines   *lines

	mu      sync.Mutex
	changed sync.Cond
	filling *batch // the reader's, and the appender's to take
	ended   bool   // nothing more will be read
	dead    bool   // nobody reads the answers any more

	cut      atomic.Pointer[Problem] // why it is ended before its end; nil if it is not
	deciding atomic.Int64            // for how long jobs were being decided, in nanoseconds
}

// lingering is how long a stream's connection outlives its handler, so that the
// last answers are not lost to a reset.
const lingering = 500 * time.Millisecond

var closing = []string{"close"}

func (h *handler) stream(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	// First of all: without it the server reads on before it sends a refusal, for
	// as long as the client writes, or waits.
	if err := rc.EnableFullDuplex(); err != nil {
		(&Problem{Reason: ReasonInternal, Detail: "this server cannot stream both ways"}).write(w)
		return
	}
	if r.ProtoMajor == 1 {
		// A stream that ends early leaves a part of its body unread; no next
		// request must be read out of that.
		w.Header()["Connection"] = closing
		// The server reads a little of it when the handler is done; not for long.
		defer func() { _ = rc.SetReadDeadline(time.Now().Add(lingering)) }()
	}
	if len(r.Header["Idempotency-Key"]) > 0 {
		(&Problem{
			Reason: ReasonInvalidRequest, Field: "Idempotency-Key",
			Detail: "is for one job; in a stream each line has its own id",
		}).write(w)
		return
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		(&Problem{
			Reason: ReasonMediaType,
			Detail: "content encoding " + shorten(enc) + " is not supported; send the lines as they are",
		}).write(w)
		return
	}
	leave, p := h.openStream(r, streamCost)
	if p != nil {
		p.write(w)
		return
	}
	defer leave()
	account := h.account(r)
	name := r.PathValue("queue")
	if err := h.known(r.Context(), name); err != nil {
		h.fail(w, err, name)
		return
	}
	s := &stream{
		h: h, w: w, r: r, rc: rc, queue: name, app: appNameOf(r.Context()), account: account,
		env: newEnvelope(), lines: newLines(r.Body, MaxEnvelopeBytes, &charge{account: account}), filling: newBatch(account),
	}
	s.changed.L = &s.mu
	s.serve(r)
	s.lines.let()
	s.filling.charge.free()
}

// known returns an error if there is no such queue, so that a stream of a million
// lines is refused before it begins. With an overflow, a store that is away is none:
// the lines that may wait are taken all the same.
func (h *handler) known(ctx context.Context, name string) error {
	if !h.o.Overflow {
		_, err := h.engine.Get(ctx, name)
		return err
	}
	short, cancel := context.WithTimeout(ctx, h.o.CheckTimeout)
	defer cancel()
	_, err := h.engine.Get(short, name)
	if ctx.Err() == nil && away(err) {
		return nil
	}
	return err
}

func (s *stream) serve(r *http.Request) {
	if r.ProtoMajor == 1 && strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		// Or the client would wait for it while it is being answered.
		head := s.w.Header()
		whole := maps.Clone(head)
		clear(head)
		s.w.WriteHeader(http.StatusContinue)
		maps.Copy(head, whole)
	}
	s.w.Header()["Content-Type"] = typeNDJSON
	s.w.Header()["Cache-Control"] = noStore
	s.w.WriteHeader(http.StatusOK)
	s.extendWrite()
	if s.rc.Flush() != nil {
		return
	}

	defer context.AfterFunc(s.h.o.Stopping, func() {
		s.end(&Problem{
			Reason: ReasonStopping, RetryAfter: retryUnavailable,
			Detail: "this server is stopping; send what was not answered again, with the same ids",
		})
	})()
	ctx, unwatch := s.h.watched(r.Context())
	defer unwatch()
	defer context.AfterFunc(ctx, func() {
		if p := lost(ctx, nil); p != nil {
			s.end(p)
		}
	})()

	var appender sync.WaitGroup
	appender.Go(func() { s.append(r.Context()) })
	last := s.read()
	s.mu.Lock()
	s.ended = true
	s.changed.Broadcast()
	s.mu.Unlock()
	appender.Wait()
	if last != nil && !s.dead {
		s.write(appendRefusedLine(nil, last.line, last.refused))
	}
}

// end ends the stream before its end.
func (s *stream) end(why *Problem) {
	s.cut.CompareAndSwap(nil, why)
	s.interrupt()
}

// interrupt makes the reader's present read, and later ones, return.
// an error means that there is no connection to interrupt
func (s *stream) interrupt() { _ = s.rc.SetReadDeadline(time.Unix(1, 0)) }

// read fills batches until the stream ends. It returns the last line's entry
// when the stream did not end properly.
func (s *stream) read() *entry {
	deadline := time.Now().Add(s.h.o.BodyTimeout)
	for number := int64(1); ; number++ {
		// The deadline moves with jobs: who sends a byte now and then, blank lines, or what is none makes no progress.
		_ = s.rc.SetReadDeadline(deadline)
		if s.cut.Load() != nil {
			s.interrupt()
		}
		line, refused, err := s.lines.next()
		if errors.Is(err, io.EOF) {
			// The server now reads ahead on the connection; a deadline that passes
			// there would cancel the request.
			_ = s.rc.SetReadDeadline(time.Time{})
			return nil
		}
		if err != nil {
			return &entry{line: number, refused: cmp.Or(s.cut.Load(), bodyProblem(err))}
		}
		if refused == nil {
			line = bytes.TrimSuffix(line, []byte{'\r'})
			if len(bytes.TrimSpace(line)) == 0 {
				continue // a blank line is counted and not answered
			}
		}
		came, decided := time.Now(), s.deciding.Load()
		job, ok := s.put(number, line, refused)
		switch {
		case !ok:
			return nil
		case job:
			deadline = time.Now().Add(s.h.o.BodyTimeout)
		default:
			// That the store takes its time is not the client's fault; that it does not read its answers is.
			deadline = deadline.Add(min(time.Since(came), time.Duration(s.deciding.Load()-decided)))
		}
	}
}

// put adds a line, unless it is refused already, to the batch being filled, waiting for room. It reports whether that
// is a job, and whether there is a point in going on.
func (s *stream) put(number int64, line []byte, refused *Problem) (job, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.dead {
		if s.filling.full() {
			s.changed.Wait()
			continue
		}
		var p *Problem
		if refused == nil {
			p = s.filling.room(line)
		}
		if p != nil && len(s.filling.entries) > 0 {
			s.filling.closed = true // as it is; when its jobs are in, there may be memory again
			continue
		}
		if p = cmp.Or(refused, p); p != nil {
			s.filling.refuse(number, p)
		} else {
			job = s.filling.add(s.env, &s.h.o, queue.Job{Queue: s.queue, App: s.app}, number, line)
		}
		if len(s.filling.entries) == 1 {
			s.changed.Signal()
		}
		return job, true
	}
	return false, false
}

// append takes what was read, appends it and answers, until nothing more comes.
func (s *stream) append(ctx context.Context) {
	var out []byte
	empty := newBatch(s.account)
	defer func() { empty.charge.free() }()
	for {
		b := s.take(empty)
		if b == nil {
			return
		}
		begun := time.Now()
		answers, letGo := s.decide(ctx, b)
		s.deciding.Add(int64(time.Since(begun)))
		out = b.appendAnswers(out[:0], answers)
		b.reset(letGo)
		empty = b
		if !s.write(out) {
			return
		}
		if cap(out) > keepOut {
			out = nil
		}
	}
}

// take waits for lines and swaps the batch that holds them for an empty one.
func (s *stream) take(empty *batch) *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.filling.entries) == 0 && !s.ended {
		s.changed.Wait()
	}
	b := s.filling
	if len(b.entries) == 0 {
		return nil
	}
	s.filling = empty
	s.changed.Signal()
	return b
}

// decide appends the batch's jobs. There is an answer for each.
func (s *stream) decide(ctx context.Context, b *batch) (answers []queue.Appended, letGo bool) {
	if len(b.jobs) == 0 {
		return nil, false
	}
	answers, err := s.h.engine.Append(ctx, b.jobs)
	if err != nil && len(answers) != len(b.jobs) {
		answers = make([]queue.Appended, len(b.jobs))
	}
	for i := range answers {
		a := &answers[i]
		if a.Outcome == queue.Full {
			s.h.noteFull(ctx, s.queue)
		}
		letGo = letGo || !done(a)
		if a.Outcome == queue.Failed && a.Err == nil {
			a.Err = err
		}
		s.h.decided(s.w, s.r, s.queue, a)
	}
	if err != nil && !errors.Is(err, queue.ErrOutcomeUnknown) && !errors.Is(err, queue.ErrUnavailable) {
		s.h.o.Logger.Warn("jobs of a stream could not be decided", "queue", s.queue, "error", err)
	}
	return answers, letGo
}

// write sends the answers of a batch and flushes them: a client may wait for them
// before it sends more. Under load batches are large, and flushes few.
func (s *stream) write(out []byte) bool {
	s.extendWrite()
	_, err := s.w.Write(out)
	if err == nil {
		err = s.rc.Flush()
	}
	if err == nil {
		return true
	}
	s.mu.Lock()
	s.dead = true
	s.changed.Broadcast()
	s.mu.Unlock()
	s.interrupt()
	return false
}

func (s *stream) extendWrite() { _ = s.rc.SetWriteDeadline(time.Now().Add(s.h.o.AnswerTimeout)) }
