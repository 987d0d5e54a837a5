package provider

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// A drainer uses a provider's limit as its rate, while another program with the same key uses a fifth of it. A queue
// that learns leaves that fifth alone; one that does not runs into the limit.
func TestLearningFromAProvider(t *testing.T) {
	for _, c := range []struct {
		learn                            string
		latency                          time.Duration
		mostRefused, leastRefused, least int
	}{
		{"openai", 100 * time.Millisecond, 3, 0, 3750},
		{"openai", 5 * time.Second, 3, 0, 3750},
		{"", 100 * time.Millisecond, 1e9, 10, 0},
	} {
		t.Run(fmt.Sprintf("%q, answers after %v", c.learn, c.latency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{Provider: OpenAI, Requests: Limit{500, time.Minute}, Burst: 50})
				charged, refused := share(r, c.learn, c.latency, 10*time.Minute)
				t.Logf("%d calls and %d refusals in 10 minutes", charged, refused)
				if refused > c.mostRefused || refused < c.leastRefused || charged < c.least {
					t.Errorf("%d calls, at least %d wanted; %d refusals", charged, c.least, refused)
				}
			})
		})
	}
}

// share has a queue's drainer and another program call a provider for a time. It returns how many calls of the queue
// were answered and refused.
func share(r *rig, learn string, latency, long time.Duration) (charged, refused int) {
	ctx, cancel := context.WithTimeout(r.Context(), long)
	defer cancel()
	e, err := boltq.OpenMemory(ctx, boltq.Options{})
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	rate, err := leaky.ParseRate("500/m")
	if err != nil {
		r.Fatal(err)
	}
	spec := queue.Spec{Name: "q", Rate: rate, Learn: learn, Capacity: 10_000}
	if _, err := e.Put(ctx, spec, queue.AnyRevision); err != nil {
		r.Fatal(err)
	}
	jobs := make([]queue.Job, 6000)
	for i := range jobs {
		jobs[i] = queue.Job{Queue: "q", ID: fmt.Sprint(i), Payload: []byte(hello)}
	}
	for from := 0; from < len(jobs); from += 1000 {
		if _, err := e.Append(ctx, jobs[from:from+1000]); err != nil {
			r.Fatal(err)
		}
	}
	var calls sync.WaitGroup
	calls.Go(func() { // the other program
		for ctx.Err() == nil {
			r.chat(hello)
			time.Sleep(5 * rate.Interval())
		}
	})
	var ok, no atomic.Int64
	call := func(j *queue.Reservation) {
		time.Sleep(j.In)
		w := r.chat(string(j.Payload))
		time.Sleep(latency)
		done := queue.Settlement{
			Lease: queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence}, Verdict: queue.Deliver,
		}
		b, err := httptarget.BudgetOf(&spec, w.Header(), time.Now())
		if done.Budget = b; err != nil {
			r.Error(err)
		}
		if ok.Add(1); w.Code == http.StatusTooManyRequests {
			ok.Add(-1)
			no.Add(1)
			later, _ := httptarget.RetryAfter(w.Header(), time.Now())
			done.Verdict, done.After = queue.Throttle, later.For
		}
		if _, err := e.Settle(context.WithoutCancel(ctx), []queue.Settlement{done}); err != nil {
			r.Error(err)
		}
	}
	// A drainer's timers are the system's, which go by real time.
	for number := uint64(1); ctx.Err() == nil; number++ {
		out, err := e.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "drainer"}, Number: number, Max: 10})
		if err != nil {
			break
		}
		for i := range out.Jobs {
			calls.Go(func() { call(&out.Jobs[i]) })
		}
		time.Sleep(max(time.Millisecond, min(out.Next, 50*time.Millisecond)))
	}
	calls.Wait()
	return int(ok.Load()), int(no.Load())
}
