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

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// stream is an NDJSON request, answered while it is read. The request's goroutine reads lines into one batch. A second
// goroutine appends the other batch and writes its answers. So a lone line is answered at once and a flood travels in
// full batches. However long the stream, it holds two batches and a line.
type stream struct {
	h     *handler
	w     http.ResponseWriter
	r     *http.Request
	rc    *http.ResponseController
	queue string
	app   string // owner of the jobs; empty for the operator

	account *ops.Account
	reader  *httpio.JobReader
	lines   *httpio.Lines

	mu      sync.Mutex
	changed sync.Cond
	filling *batch // filled by the reader, taken over by the appender
	ended   bool   // nothing more will be read
	dead    bool   // the client no longer reads answers

	cut       atomic.Pointer[httpio.Problem] // why the server ends the stream; nil if it does not
	appending atomic.Int64                   // time spent in the engine, in nanoseconds
}

const (
	// streamCost is the memory of an open stream beside long lines and large batches: a read buffer, two batches of up to
	// freeArena, and the answers of one.
	streamCost = 768 << 10
	// lingering is how long a stream's connection outlives its handler, so that the last answers are not lost to a reset.
	lingering = 500 * time.Millisecond
)

func (h *handler) appendStream(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	// This comes first. Otherwise the server would read the rest of the body before it sends a refusal, for as long as
	// the client writes or waits.
	if err := rc.EnableFullDuplex(); err != nil {
		(&httpio.Problem{Reason: httpio.ReasonInternal, Detail: "this server does not support full-duplex streams"}).Write(w)
		return
	}
	if r.ProtoMajor == 1 {
		// A stream that ends early leaves part of its body unread, which must not be read as the next request.
		w.Header()["Connection"] = httpio.Closing
		// When the handler is done, the server reads some of the rest; this bounds the time.
		defer func() { _ = rc.SetReadDeadline(time.Now().Add(lingering)) }()
	}
	if len(r.Header["Idempotency-Key"]) > 0 {
		(&httpio.Problem{
			Reason: httpio.ReasonInvalidRequest, Field: "Idempotency-Key",
			Detail: "applies to one job; in a stream each line has its own id",
		}).Write(w)
		return
	}
	if p := httpio.RequirePlain(r, "the lines"); p != nil {
		p.Write(w)
		return
	}
	leave, p := h.openStream(r, streamCost)
	if p != nil {
		p.Write(w)
		return
	}
	defer leave()
	account := h.account(r)
	name := r.PathValue("queue")
	if err := h.queueExists(r.Context(), name); err != nil {
		h.fail(w, err, name)
		return
	}
	s := &stream{
		h: h, w: w, r: r, rc: rc, queue: name, app: appNameOf(r.Context()), account: account,
		reader: httpio.NewJobReader(), filling: newBatch(account),
		lines: httpio.NewLines(r.Body, httpio.MaxJobBytes, httpio.NewCharge(account)),
	}
	s.changed.L = &s.mu
	s.serve(r)
	s.lines.Release()
	s.filling.charge.Free()
}

// queueExists returns an error if the queue does not exist, so that a stream of a million lines is refused before it
// begins. With an overflow, an unreachable store is no error: jobs that may be deferred are still accepted.
func (h *handler) queueExists(ctx context.Context, name string) error {
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
		// Otherwise the client would still wait for 100 Continue while answers are already being written.
		head := s.w.Header()
		whole := maps.Clone(head)
		clear(head)
		s.w.WriteHeader(http.StatusContinue)
		maps.Copy(head, whole)
	}
	s.w.Header()["Content-Type"] = httpio.TypeNDJSON
	s.w.Header()["Cache-Control"] = httpio.NoStore
	s.w.WriteHeader(http.StatusOK)
	s.extendWrite()
	if s.rc.Flush() != nil {
		return
	}

	defer context.AfterFunc(s.h.o.Stopping, func() {
		s.end(&httpio.Problem{
			Reason: httpio.ReasonStopping, RetryAfter: httpio.RetryUnavailable,
			Detail: "this server is stopping; resend the unanswered jobs with the same ids",
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
		s.write(appendRefusedLine(nil, last.number, last.refused))
	}
}

// end ends the stream early.
func (s *stream) end(why *httpio.Problem) {
	s.cut.CompareAndSwap(nil, why)
	s.interrupt()
}

// interrupt makes all reads return. An error means that there is no connection to interrupt.
func (s *stream) interrupt() { _ = s.rc.SetReadDeadline(time.Unix(1, 0)) }

// read fills batches until the stream ends. If the stream did not end properly, it returns the refused last line.
func (s *stream) read() *batchLine {
	deadline := time.Now().Add(s.h.o.BodyTimeout)
	for number := int64(1); ; number++ {
		// Only jobs move the deadline: single bytes, blank lines and invalid lines are no progress.
		_ = s.rc.SetReadDeadline(deadline)
		if s.cut.Load() != nil {
			s.interrupt()
		}
		line, refused, err := s.lines.Next()
		if errors.Is(err, io.EOF) {
			// The server now reads ahead on the connection, and a deadline there would cancel the request.
			_ = s.rc.SetReadDeadline(time.Time{})
			return nil
		}
		if err != nil {
			return &batchLine{number: number, refused: cmp.Or(s.cut.Load(), httpio.BodyProblem(err))}
		}
		if refused == nil {
			line = bytes.TrimSuffix(line, []byte{'\r'})
			if len(bytes.TrimSpace(line)) == 0 {
				continue // a blank line counts, but is not answered
			}
		}
		came, appending := time.Now(), s.appending.Load()
		job, ok := s.put(number, line, refused)
		switch {
		case !ok:
			return nil
		case job:
			deadline = time.Now().Add(s.h.o.BodyTimeout)
		default:
			// A slow store is not the client's fault. Unread answers are.
			deadline = deadline.Add(min(time.Since(came), time.Duration(s.appending.Load()-appending)))
		}
	}
}

// put adds a line, or its refusal, to the batch being filled; it waits for room. It reports whether the line is a valid
// job, and whether to read on.
func (s *stream) put(number int64, line []byte, refused *httpio.Problem) (job, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.dead {
		if s.filling.full() {
			s.changed.Wait()
			continue
		}
		var p *httpio.Problem
		if refused == nil {
			p = s.filling.grow(line)
		}
		if p != nil && len(s.filling.lines) > 0 {
			s.filling.closed = true // when its jobs are appended, there may be memory again
			continue
		}
		if p = cmp.Or(refused, p); p != nil {
			s.filling.refuse(number, p)
		} else {
			job = s.filling.add(s.reader, &s.h.o, queue.Job{Queue: s.queue, App: s.app}, number, line)
		}
		if len(s.filling.lines) == 1 {
			s.changed.Signal()
		}
		return job, true
	}
	return false, false
}

// append appends and answers the batches until the stream ends.
func (s *stream) append(ctx context.Context) {
	var out []byte
	empty := newBatch(s.account)
	defer func() { empty.charge.Free() }()
	for {
		b := s.next(empty)
		if b == nil {
			return
		}
		begun := time.Now()
		answers, inUse := s.appendBatch(ctx, b)
		s.appending.Add(int64(time.Since(begun)))
		out = b.appendAnswers(out[:0], answers)
		b.reset(inUse)
		empty = b
		if !s.write(out) {
			return
		}
		if cap(out) > maxKeptOutput {
			out = nil
		}
	}
}

// next waits for lines, and swaps their batch for an empty one. It returns nil at the end of the stream.
func (s *stream) next(empty *batch) *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.filling.lines) == 0 && !s.ended {
		s.changed.Wait()
	}
	b := s.filling
	if len(b.lines) == 0 {
		return nil
	}
	s.filling = empty
	s.changed.Signal()
	return b
}

// appendBatch appends the jobs of a batch. It returns an answer for each, and whether the engine may still hold
// payloads.
func (s *stream) appendBatch(ctx context.Context, b *batch) (answers []queue.Appended, inUse bool) {
	if len(b.jobs) == 0 {
		return nil, false
	}
	answers, err := s.h.engine.Append(ctx, b.jobs)
	if err != nil && len(answers) != len(b.jobs) {
		answers = make([]queue.Appended, len(b.jobs))
	}
	for i := range answers {
		a := &answers[i]
		inUse = inUse || !released(a)
		s.h.report(s.w, s.r, s.queue, a, err)
	}
	if err != nil && !errors.Is(err, queue.ErrOutcomeUnknown) && !errors.Is(err, queue.ErrUnavailable) {
		s.h.o.Logger.Warn("jobs of a stream could not be appended", "queue", s.queue, "error", err)
	}
	return answers, inUse
}

// write sends the answers of a batch and flushes them, since a client may wait for them before it sends more. Under
// load, batches are large and flushes few.
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
