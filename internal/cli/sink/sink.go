// Package sink is a test receiver of HTTP requests and mail. It shows what arrives, and answers, fails or delays as
// configured.
//
// It promises limited memory, whatever arrives. It stores only counts.
package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Options are the behavior of a Sink. Shares are from 0 to 1, and at most 1 in total.
type Options struct {
	Latency    time.Duration // before each answer
	Fail       float64       // share of requests answered with Status
	Status     int
	RetryAfter time.Duration // header of failures; 0 sends none
	Drop       float64       // share of requests whose connection is closed without an answer
	Hang       float64       // share of requests that are never answered
	Refuse     float64       // share of connections closed before anything is read
	// Provider answers the requests that do not fail. If it is nil, the answer is an empty 200.
	Provider Provider
	// Shown is called for each request when it has its answer, one at a time. It may be nil.
	Shown func(Request)

	random func() float64 // for tests
}

// Request is a request or mail that arrived.
type Request struct {
	At      time.Time `json:"at"`
	Method  string    `json:"method"`            // MAIL for mail
	Path    string    `json:"path"`              // sender -> recipients for mail
	ID      string    `json:"id,omitempty"`      // of the job; the Message-ID for mail
	Queue   string    `json:"queue,omitempty"`   // of the job
	Attempt string    `json:"attempt,omitempty"` // of the job
	// Body is the beginning of the body, and Bytes its length.
	Body  string `json:"body"`
	Bytes int64  `json:"bytes"`
	// Answer is the status, or the codes of the reply to a mail, or Dropped or Hung.
	Answer string `json:"answer"`
}

// Cut reports whether Body is incomplete. For mail it leaves out the header anyway.
func (q *Request) Cut() bool {
	if q.Method == mailMethod {
		return len(q.Body) >= maxShownBody
	}
	return int64(len(q.Body)) < q.Bytes
}

// Values of Answer for requests without one.
const (
	Dropped = "dropped"
	Hung    = "hung"
)

// Limits of a Sink.
const (
	maxConnections = 512
	maxBody        = 4 << 20
	maxShownBody   = 512
	maxHeader      = 16 << 10
)

// Sink is the receiver.
type Sink struct {
	o     Options
	count *counts
}

// New returns a Sink.
func New(o Options) (*Sink, error) {
	for _, share := range []float64{o.Fail, o.Drop, o.Hang, o.Refuse} {
		if !(share >= 0 && share <= 1) {
			return nil, fmt.Errorf("share %g: must be from 0 to 1", share)
		}
	}
	if sum := o.Fail + o.Drop + o.Hang; sum > 1 {
		return nil, fmt.Errorf("the shares of fail, drop and hang are %g in total, but must be at most 1", sum)
	}
	if o.Status < 200 || o.Status > 599 {
		return nil, fmt.Errorf("status %d: must be from 200 to 599", o.Status)
	}
	if o.random == nil {
		o.random = rand.Float64
	}
	return &Sink{o: o, count: newCounts()}, nil
}

// Serve answers until ctx ends, and closes the listener.
func (s *Sink) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: maxHeader,
		BaseContext:    func(net.Listener) context.Context { return ctx }, // hanging requests end with it
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	err := server.Serve(s.door(listener))
	if errors.Is(err, http.ErrServerClosed) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// Totals returns the counts so far.
func (s *Sink) Totals() Totals { return s.count.totals() }

// ServeHTTP implements http.Handler.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.o.Provider != nil {
		s.provide(w, r)
		return
	}
	q := requestOf(r)
	s.count.arrived(q.At)
	head := make([]byte, maxShownBody)
	n, _ := io.ReadFull(r.Body, head) // a short body is fine
	rest, err := io.Copy(io.Discard, io.LimitReader(r.Body, maxBody-int64(n)))
	q.Body, q.Bytes = string(head[:n]), int64(n)+rest
	if err != nil { // interrupted
		q.Answer = Dropped
		s.show(q)
		return
	}
	ctx := r.Context()
	switch answer := s.settle(ctx, q, "200", strconv.Itoa(s.o.Status), func() { <-ctx.Done() }); answer {
	case "":
		panic(http.ErrAbortHandler)
	case "200":
		w.WriteHeader(http.StatusOK)
	default:
		s.retryAfter(w)
		w.WriteHeader(s.o.Status)
	}
}

func requestOf(r *http.Request) Request {
	return Request{
		At: time.Now(), Method: r.Method, Path: r.URL.RequestURI(),
		ID: r.Header.Get("Penstock-Id"), Queue: r.Header.Get("Penstock-Queue"), Attempt: r.Header.Get("Penstock-Attempt"),
	}
}

// retryAfter sets the header of failures.
func (s *Sink) retryAfter(w http.ResponseWriter) {
	if s.o.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(s.retrySeconds(), 10))
	}
}

func (s *Sink) retrySeconds() int64 { return int64((s.o.RetryAfter + time.Second - 1) / time.Second) }

// settle draws the outcome of a request, shows it, and returns the answer when it is due: good, bad, or empty to close
// the connection. hang waits until the client gives up.
func (s *Sink) settle(ctx context.Context, q Request, good, bad string, hang func()) string {
	switch s.fate(ctx, func(context.Context) {
		q.Answer = Hung
		s.show(q)
		hang()
	}) {
	case Hung:
		return ""
	case Dropped:
		q.Answer = Dropped
		s.show(q)
		return ""
	case failed:
		q.Answer = bad
	default:
		q.Answer = good
	}
	s.show(q)
	return q.Answer
}

// Outcomes of a request, besides Hung and Dropped.
const (
	passed = "passed"
	failed = "failed"
)

// fate draws the outcome of a request: Hung, Dropped, failed or passed. It returns when the outcome is due; hang waits
// until the client gives up. If the context ends before that, the outcome is Hung.
func (s *Sink) fate(ctx context.Context, hang func(context.Context)) string {
	fate := s.o.random()
	if fate < s.o.Hang {
		hang(ctx)
		return Hung
	}
	if !wait(ctx, s.o.Latency) {
		return Hung
	}
	switch fate -= s.o.Hang; {
	case fate < s.o.Drop:
		return Dropped
	case fate-s.o.Drop < s.o.Fail:
		return failed
	}
	return passed
}

func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (s *Sink) show(q Request) {
	s.count.answered(q.Answer, func() {
		if s.o.Shown != nil {
			s.o.Shown(q)
		}
	})
}
