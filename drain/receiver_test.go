package drain_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/unit"
)

// receiver is a server that may throttle or be down, with its senders.
type receiver struct {
	drain.NoObserver
	*httptest.Server

	mu      sync.Mutex
	spared  time.Time // 429 until then
	down    bool      // 503
	refused int
	starts  []time.Time
	// When the queue was first seen to stop, and its circuit to open and to close.
	stopped, opened, closed time.Time
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case r.down:
			r.refused++
			w.WriteHeader(http.StatusServiceUnavailable)
		case time.Now().Before(r.spared):
			r.refused++
			w.Header().Set("Until", r.spared.Format(time.RFC3339Nano))
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// Affected notes the receiver's effect on the queue.
func (r *receiver) Affected(_ queue.Settlement, e queue.Effect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	switch {
	case e.Closed:
		r.closed = now
	case e.Opened:
		r.opened = now
	case e.Stopped > 0 && r.stopped.IsZero():
		r.stopped = now
	}
}

// send is the handler of all drainers.
func (r *receiver) send(ctx context.Context, job *drain.Job) error {
	r.mu.Lock()
	r.starts = append(r.starts, time.Now())
	r.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(job.Payload))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return drain.Down(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusTooManyRequests:
		at, err := time.Parse(time.RFC3339Nano, answer.Header.Get("Until"))
		if err != nil {
			return err
		}
		return drain.Throttled(at)
	case http.StatusServiceUnavailable:
		return drain.Down(fmt.Errorf("%s", answer.Status))
	}
	return nil
}

// between counts the starts in a span.
func (r *receiver) between(from, to time.Time) (n int) {
	for _, at := range r.starts {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// reach is how long jobs may start after their queue was stopped: jobs granted before still leave. The rest is for a
// busy machine.
const reach = queue.Horizon + queue.LeastSlack + 150*time.Millisecond

// attend lets three drainers, each with its own engine on one Redis, send to a receiver while look runs.
func attend(t *testing.T, s queue.Spec, jobs int, look func(r *receiver, e queue.Engine)) {
	server := redistest.New(t, redistest.Options{})
	open := func() queue.Engine {
		e, err := redisq.OpenClient(t.Context(), server.Client(), redisq.Options{Init: true, Patience: redistest.Patience})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	e := open()
	put(t, e, s)
	push(t, e, "q", 0, jobs)
	r := newReceiver(t)
	for range 3 {
		d := start(open(), drain.HandlerFunc(r.send), drain.Options{Observer: r})
		defer d.finish(t)
	}
	look(r, e)
	await.Until(t, "all delivered", func() bool { return info(t, e, "q").Delivered == int64(jobs) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.starts) != jobs+r.refused {
		t.Errorf("%d jobs started, %d of them were refused; want %d delivered", len(r.starts), r.refused, jobs)
	}
	var at []time.Duration
	for _, start := range r.starts {
		at = append(at, start.Sub(r.starts[0]))
	}
	if v := (law.Law{
		Rate: s.Rate, Burst: s.Burst, Slack: queue.LeastSlack, Delta: 100 * time.Millisecond,
	}).Judge(law.At(at)); !v.Held {
		t.Errorf("%d starts in %v, allowed %d", v.Worst.Starts, v.Worst.Width, v.Worst.Allowed)
	}
	if i := info(t, e, "q"); i.Retried != 0 || i.Died != 0 || i.Throttled+i.Down != int64(r.refused) {
		t.Errorf("%d were refused: %+v", r.refused, i)
	}
	for n := range jobs {
		if j, err := e.Job(t.Context(), "q", fmt.Sprintf("%06d", n)); err != nil || j.Attempts != 1 {
			t.Errorf("it took %d attempts, %v", j.Attempts, err)
		}
	}
}

// Once one job is throttled, no drainer starts another before the receiver's instant, except jobs granted by then.
// Afterwards the rate holds.
func TestAReceiverIsSpared(t *testing.T) {
	attend(t, queue.Spec{Name: "q", Rate: leaky.PerSecond(100)}, 150, func(r *receiver, e queue.Engine) {
		await.Until(t, "some are delivered", func() bool { return info(t, e, "q").Delivered >= 30 })
		r.mu.Lock()
		spared := time.Now().Add(2 * time.Second)
		r.spared = spared
		r.mu.Unlock()
		await.Until(t, "all are delivered", func() bool { return info(t, e, "q").Delivered == 150 })
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.stopped.IsZero() {
			t.Fatal("no drainer reported that the queue stops")
		}
		if n := r.between(r.stopped.Add(reach), spared); n > 0 {
			t.Errorf("%d jobs started in the %v that were left", n, spared.Sub(r.stopped.Add(reach)))
		}
	})
}

// A receiver that is down is probed by single jobs, which spend no attempt. Once it is up, the queue continues at its
// rate.
func TestAReceiverThatIsDownIsProbed(t *testing.T) {
	s := queue.Spec{Name: "q", Rate: leaky.PerSecond(100), Burst: 3}
	s.Circuit = queue.Circuit{
		Failures: 3, MinProbe: unit.Duration(200 * time.Millisecond), MaxProbe: unit.Duration(400 * time.Millisecond),
	}
	attend(t, s, 150, func(r *receiver, e queue.Engine) {
		await.Until(t, "some are delivered", func() bool { return info(t, e, "q").Delivered >= 30 })
		fall := func(down bool) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.down = down
		}
		fall(true)
		await.Until(t, "the circuit opens", func() bool { i := info(t, e, "q"); return i.Circuit.Open() })
		opened := time.Now()
		await.Until(t, "probes have failed for a while", func() bool { return time.Since(opened) > 2*time.Second })
		up := time.Now()
		fall(false)
		await.Until(t, "the circuit closes", func() bool { i := info(t, e, "q"); return !i.Circuit.Open() })
		await.Until(t, "all are delivered", func() bool { return info(t, e, "q").Delivered == 150 })
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.opened.IsZero() || r.closed.Before(r.opened) {
			t.Fatalf("opened at %v, closed at %v", r.opened, r.closed)
		}
		from := r.opened.Add(reach)
		if n, most := r.between(from, up), 2+int(up.Sub(from)/(200*time.Millisecond)); n > most {
			t.Errorf("%d jobs started in %v while it was down, at most %d probes", n, up.Sub(from), most)
		}
	})
}
