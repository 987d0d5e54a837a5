// Package sink is a receiver to try things out with, of HTTP and of mail: it shows what arrives, and answers as it was
// told to.
//
// It promises bounded memory, whatever arrives and however long it is kept waiting. It refuses to keep anything but
// counts.
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

// Options say how a Sink answers. Shares are from 0 to 1, and 1 together at most.
type Options struct {
	Latency    time.Duration // before each answer
	Fail       float64       // of requests, answered Status
	Status     int
	RetryAfter time.Duration // told with it; 0 is not told
	Drop       float64       // of requests, taken and not answered: the connection ends
	Hang       float64       // of requests, never answered
	Refuse     float64       // of connections, ended before anything is read
	// Shown is told of each request when it has its answer, one at a time. Nil is nobody.
	Shown func(Request)

	random func() float64 // of tests
}

// Request is one that arrived.
type Request struct {
	At      time.Time `json:"at"`
	Method  string    `json:"method"`            // MAIL, of a mail
	Path    string    `json:"path"`              // sender -> recipients, of a mail
	ID      string    `json:"id,omitempty"`      // of the job; of a mail, its Message-ID
	Queue   string    `json:"queue,omitempty"`   // of the job
	Attempt string    `json:"attempt,omitempty"` // of the job
	// Body is its beginning, and Bytes how long it was.
	Body  string `json:"body"`
	Bytes int64  `json:"bytes"`
	// Answer is the status or, of a mail, the reply's codes; or Dropped or Hung.
	Answer string `json:"answer"`
}

// Cut reports whether Body is less than arrived. Of a mail it never has the header.
func (q *Request) Cut() bool {
	if q.Method == mailMethod {
		return len(q.Body) >= maxShownBody
	}
	return int64(len(q.Body)) < q.Bytes
}

// What stands as the Answer of a request that got none.
const (
	Dropped = "dropped"
	Hung    = "hung"
)

// Bounds of what a Sink holds.
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
			return nil, fmt.Errorf("a share of %g is not from 0 to 1", share)
		}
	}
	if sum := o.Fail + o.Drop + o.Hang; sum > 1 {
		return nil, fmt.Errorf("the shares that fail, are dropped and hang are %g together, at most 1 can be", sum)
	}
	if o.Status < 200 || o.Status > 599 {
		return nil, fmt.Errorf("the status %d is not from 200 to 599", o.Status)
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
		BaseContext:    func(net.Listener) context.Context { return ctx }, // so that what hangs ends with it
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	err := server.Serve(s.door(listener))
	if errors.Is(err, http.ErrServerClosed) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// Totals is what arrived so far.
func (s *Sink) Totals() Totals { return s.count.totals() }

// ServeHTTP takes one request.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := Request{
		At: time.Now(), Method: r.Method, Path: r.URL.RequestURI(),
		ID: r.Header.Get("Penstock-Id"), Queue: r.Header.Get("Penstock-Queue"), Attempt: r.Header.Get("Penstock-Attempt"),
	}
	s.count.arrived(q.At)
	head := make([]byte, maxShownBody)
	n, _ := io.ReadFull(r.Body, head) // what there is of it is shown
	rest, err := io.Copy(io.Discard, io.LimitReader(r.Body, maxBody-int64(n)))
	q.Body, q.Bytes = string(head[:n]), int64(n)+rest
	if err != nil { // it was broken off
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
		if s.o.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.FormatInt(s.retrySeconds(), 10))
		}
		w.WriteHeader(s.o.Status)
	}
}

func (s *Sink) retrySeconds() int64 { return int64((s.o.RetryAfter + time.Second - 1) / time.Second) }

// settle draws how a request ends, shows it, and returns its answer once it is due: good or failed; empty if it gets
// none and its connection is to end. hang waits for as long as the client does.
func (s *Sink) settle(ctx context.Context, q Request, good, failed string, hang func()) string {
	fate := s.o.random()
	if fate < s.o.Hang {
		q.Answer = Hung
		s.show(q)
		hang()
		return ""
	}
	if !wait(ctx, s.o.Latency) {
		return ""
	}
	switch fate -= s.o.Hang; {
	case fate < s.o.Drop:
		q.Answer = Dropped
		s.show(q)
		return ""
	case fate-s.o.Drop < s.o.Fail:
		q.Answer = failed
	default:
		q.Answer = good
	}
	s.show(q)
	return q.Answer
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
