package httptarget_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// receiver fails some first attempts, and
// remembers what came when.
type receiver struct {
	begin time.Time
	mu    sync.Mutex
	at    []time.Duration
	done  map[string]int
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	now := time.Since(r.begin)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = append(r.at, now)
	id := q.Header.Get(setting.HeaderID)
	if q.Header.Get(setting.HeaderAttempt) == "1" && id[len(id)-1] == '7' {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	r.done[id]++
}

// From a queue over real HTTPS, with failures and retries: everything arrives
// once, at the rate, as the receiver sees it.
func TestEndToEnd(t *testing.T) { engines.Each(t, endToEnd) }

func endToEnd(t *testing.T, e queue.Engine) {
	const n, delta = 300, 100 * time.Millisecond // delta is wide: the machine may be busy
	rate := leaky.PerSecond(200)
	recv := &receiver{begin: time.Now(), done: map[string]int{}}
	s := httptest.NewTLSServer(recv)
	defer s.Close()
	target, err := json.Marshal(map[string]any{"http": map[string]string{"url": s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	// The slack is wide too, or a busy machine gives back nearly all it is granted. What is judged stays: one drainer's
	// starts keep their distance, however late they are.
	spec := queue.Spec{
		Name: "mail", Rate: rate, Slack: unit.Duration(10 * time.Second), Deliver: target,
		Retry: queue.Retry{MinBackoff: unit.Duration(time.Millisecond)},
	}
	if _, err := e.Put(t.Context(), spec, 0); err != nil {
		t.Fatal(err)
	}
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = queue.Job{Queue: "mail", ID: fmt.Sprintf("%04d", i), Payload: []byte("{}")}
	}
	if _, err := e.Append(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	guard, err := egress.New(egress.Loopback...)
	if err != nil {
		t.Fatal(err)
	}
	router := deliver.New(deliver.Options{Egress: guard, TLS: s.Client().Transport.(*http.Transport).TLSClientConfig})
	defer router.Close()
	ctx, stop := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- drain.Run(ctx, e, router, drain.Options{}) }()

	left, deadline := int64(n), time.Now().Add(time.Minute) // of the next that goes
	for {
		i, err := e.Get(t.Context(), "mail")
		if err != nil {
			t.Fatal(err)
		}
		if i.Size() == 0 {
			if i.Delivered != n || i.Dead != 0 || i.Retried != n/10 {
				t.Errorf("%d delivered, %d dead, %d retried", i.Delivered, i.Dead, i.Retried)
			}
			break
		}
		if i.Size() != left {
			left, deadline = i.Size(), time.Now().Add(time.Minute)
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %d left", i.Size())
		}
		<-time.After(10 * time.Millisecond)
	}
	stop()
	if err := <-end; err != nil {
		t.Error(err)
	}
	recv.mu.Lock()
	defer recv.mu.Unlock()
	for _, j := range jobs {
		if recv.done[j.ID] != 1 {
			t.Errorf("%s arrived %d times", j.ID, recv.done[j.ID])
		}
	}
	verdict := law.Law{Rate: rate, Slack: queue.LeastSlack, Delta: delta}.Judge(law.At(recv.at))
	if !verdict.Held {
		t.Errorf("%d arrivals in %v, allowed %d", verdict.Worst.Starts, verdict.Worst.Width, verdict.Worst.Allowed)
	}
}

// drainLoopback drains an engine to receivers on this machine until stop is called.
func drainLoopback(t *testing.T, e queue.Engine, o drain.Options) (stop func()) {
	t.Helper()
	guard, err := egress.New(egress.Loopback...)
	if err != nil {
		t.Fatal(err)
	}
	router := deliver.New(deliver.Options{Egress: guard})
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- drain.Run(ctx, e, router, o) }()
	return func() {
		cancel()
		if err := <-end; err != nil {
			t.Error(err)
		}
		_ = router.Close()
	}
}
