// Package receiver is an HTTP server on loopback that records when each request came and which job it carried. demo and
// prove use it to judge Penstock.
//
// An arrival's instant is when the kernel received the last segment of the request's head, however late this process
// read it. It is on a monotonic clock. If the kernel gives no stamp, or an implausible one, the instant is taken before
// the request is handled, and marked. Every request is recorded, whatever the answer. The package does not judge
// (package law does), and other machines cannot reach the receiver.
package receiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Headers set by deliver's HTTP target, which identify an arrival.
const (
	HeaderID      = "Penstock-Id"
	HeaderAttempt = "Penstock-Attempt"
)

// Arrival is one request.
type Arrival struct {
	At      time.Duration // since the receiver was made, monotonic
	Kernel  bool          // whether the kernel took At, rather than this process
	Path    string
	ID      string // of the job; empty if the request had none
	Attempt int    // 0 if the request had none
	Status  int    // status of the answer
}

// Options of a Receiver. The zero Options answer 204 to everything.
type Options struct {
	// Answer returns the status for an arrival. It is called once per request, from many goroutines. Nil means 204
	// always.
	Answer func(Arrival) int
	// Header returns header fields of the answer about a job, by its id. Nil means none.
	Header func(id string) http.Header
	// Log gets the HTTP server's complaints; nil discards them.
	Log *slog.Logger
}

// Receiver records arrivals. It is safe for use by many goroutines.
type Receiver struct {
	answer   func(Arrival) int
	header   func(id string) http.Header
	listener net.Listener
	server   *http.Server
	start    time.Time
	zero     span

	mu       sync.Mutex
	arrivals []Arrival
	stalls   []Stall
}

// Listen returns a Receiver bound to a free port of 127.0.0.1. It answers only once Serve runs.
func Listen(o Options) (*Receiver, error) {
	binding := net.ListenConfig{Control: askForStamps}
	listener, err := binding.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bind the receiver: %w", err)
	}
	r := &Receiver{answer: o.Answer, header: o.Header, listener: wires{listener}, start: time.Now()}
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

// URL returns the receiver's address, without a slash at the end.
func (r *Receiver) URL() string { return "http://" + r.listener.Addr().String() }

// Now returns the present instant on the clock of the arrivals.
func (r *Receiver) Now() time.Duration { return time.Since(r.start) }

// Serve answers requests until ctx ends. Then it waits for requests in progress, and returns nil. Call it once.
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
		_ = r.server.Close() // a request outlived the grace; cutting it loses nothing
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("receiver: %w", err)
	}
	return nil
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	at, kernel := r.arrived(req.Context())
	a := Arrival{At: at, Kernel: kernel, Path: req.URL.Path, ID: req.Header.Get(HeaderID)}
	a.Attempt, _ = strconv.Atoi(req.Header.Get(HeaderAttempt)) // 0 if absent or invalid, as documented
	a.Status = r.answer(a)
	r.mu.Lock()
	r.arrivals = append(r.arrivals, a)
	r.mu.Unlock()
	// Read to the end, so that the sender can reuse its connection.
	_, _ = io.Copy(io.Discard, req.Body)
	if r.header != nil {
		maps.Copy(w.Header(), r.header(a.ID))
	}
	w.WriteHeader(a.Status)
}

// Count returns the number of arrivals so far.
func (r *Receiver) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.arrivals)
}

// Arrivals returns a copy of the records after the first from, in the order of arrival as far as that is known.
func (r *Receiver) Arrivals(from int) []Arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from >= len(r.arrivals) {
		return nil
	}
	arrivals := slices.Clone(r.arrivals[from:])
	// They were recorded in the order in which this process read them.
	slices.SortStableFunc(arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return arrivals
}
