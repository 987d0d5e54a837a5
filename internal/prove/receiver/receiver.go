// Package receiver is an HTTP server on loopback that writes down when each
// request came and which job it brought. demo and prove judge Penstock by it.
//
// It promises that an arrival's instant is when the kernel received the last segment of
// the request's head, however late this process came to read it, on a clock that is
// not set; where the kernel does not say, or cannot be believed, it is taken before
// anything else is done with the request, and marked. Nothing is dropped from the record,
// whatever is answered. It refuses to judge (package law does) and to be reached from
// another machine.
package receiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Headers that deliver's HTTP target sets and that an arrival is known by.
const (
	HeaderID      = "Penstock-Id"
	HeaderAttempt = "Penstock-Attempt"
)

// Arrival is one request.
type Arrival struct {
	At      time.Duration // since the receiver was made, monotonic
	Kernel  bool          // whether the kernel took At, and not this process
	Path    string
	ID      string // of the job; empty if the request named none
	Attempt int    // 0 if the request named none
	Status  int    // what was answered
}

// Options of a Receiver. The zero Options answer 204 to everything.
type Options struct {
	// Answer decides the status of the arrival. It is called once per request,
	// from many goroutines. Nil means 204 always.
	Answer func(Arrival) int
	// Log gets what the HTTP server complains about; nil discards it.
	Log *slog.Logger
}

// Receiver records arrivals. It is safe for use by many goroutines.
type Receiver struct {
	answer   func(Arrival) int
	listener net.Listener
	server   *http.Server
	start    time.Time
	zero     span

	mu       sync.Mutex
	arrivals []Arrival
	stalls   []Stall
}

// Listen returns a Receiver bound to a free port of 127.0.0.1. It answers
// nobody before Serve.
func Listen(o Options) (*Receiver, error) {
	binding := net.ListenConfig{Control: askForStamps}
	listener, err := binding.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bind the receiver: %w", err)
	}
	r := &Receiver{answer: o.Answer, listener: wires{listener}, start: time.Now()}
	r.zero = r.zeroNow()
	if r.answer == nil {
		r.answer = func(Arrival) int { return http.StatusNoContent }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r.server = &http.Server{
		Handler:           http.HandlerFunc(r.receive),
		ConnContext:       remember,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	return r, nil
}

// URL is where the receiver listens, without a slash at the end.
func (r *Receiver) URL() string { return "http://" + r.listener.Addr().String() }

// Now is the present instant on the clock of the arrivals.
func (r *Receiver) Now() time.Duration { return time.Since(r.start) }

// Serve answers requests until ctx ends; then it lets those under way finish,
// and returns nil. Call it once.
func (r *Receiver) Serve(ctx context.Context) error {
	watching, endWatch := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watchStalls(watching) })
	defer watch.Wait()
	defer endWatch()

	done := make(chan error, 1)
	go func() { done <- r.server.Serve(r.listener) }()
	select {
	case err := <-done:
		return fmt.Errorf("receiver: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 500*time.Millisecond)
	defer cancel()
	if r.server.Shutdown(grace) != nil {
		_ = r.server.Close() // somebody's request outlived the grace; nothing is lost by cutting it
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("receiver: %w", err)
	}
	return nil
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	at, kernel := r.arrived(req.Context())
	a := Arrival{At: at, Kernel: kernel, Path: req.URL.Path, ID: req.Header.Get(HeaderID)}
	a.Attempt, _ = strconv.Atoi(req.Header.Get(HeaderAttempt)) // absent or odd is 0, as documented
	a.Status = r.answer(a)
	r.mu.Lock()
	r.arrivals = append(r.arrivals, a)
	r.mu.Unlock()
	// Read to the end so that the sender's connection can be used again.
	_, _ = io.Copy(io.Discard, req.Body)
	w.WriteHeader(a.Status)
}

// Count is the number of arrivals so far.
func (r *Receiver) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.arrivals)
}

// Arrivals returns a copy of what was recorded after the first so many, in the
// order of arrival as far as two requests can be told apart.
func (r *Receiver) Arrivals(from int) []Arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from >= len(r.arrivals) {
		return nil
	}
	arrivals := slices.Clone(r.arrivals[from:])
	// They were recorded in the order in which this process came to read them.
	slices.SortStableFunc(arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return arrivals
}
