package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/provider/rivals"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// contest is a time in which clients use a provider with the same key.
type contest struct {
	*rig
	latency time.Duration // of an answer
	long    time.Duration
	settled time.Time // from here on calls are counted
}

// begin begins a contest in which calls are counted after a time.
func (r *rig) begin(latency, after, long time.Duration) *contest {
	return &contest{r, latency, long, time.Now().Add(after)}
}

// tally is what came of a client's calls that were counted.
type tally struct {
	mu             sync.Mutex
	calls, refused int
	tokens         int64
}

func (t *tally) String() string {
	return fmt.Sprintf("%d calls, %d refusals, %d tokens", t.calls, t.refused, t.tokens)
}

// call makes a call, and returns its answer.
func (c *contest) call(t *tally) *http.Response {
	w := c.chat(talk)
	counted := !time.Now().Before(c.settled)
	time.Sleep(c.latency)
	if counted {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.calls++; w.Code == http.StatusTooManyRequests {
			t.refused++
		}
		t.tokens += tokensOf(w.Body.Bytes())
	}
	return w.Result()
}

// talk is a call that may use as many tokens as the provider wants.
const talk = `{"model": "sim-small", "max_tokens": 30000, "messages": [{"role": "user", "content": "hello"}]}`

func tokensOf(body []byte) int64 {
	var answer struct {
		Usage struct {
			TotalTokens int64 `json:"total_tokens"`
		}
	}
	_ = json.Unmarshal(body, &answer) // a refusal states none
	return answer.Usage.TotalTokens
}

// rival has a rival make calls for the whole time.
func (c *contest) rival(run rivals.Rival, workers int, perMinute, most int64) *tally {
	ctx, cancel := context.WithTimeout(c.Context(), c.long)
	defer cancel()
	t := &tally{}
	run(ctx, workers, perMinute, most, func(context.Context) rivals.Outcome {
		answer := c.call(t) //nolint:bodyclose // it is a recorder's
		var o rivals.Outcome
		if answer.StatusCode == http.StatusTooManyRequests {
			later, _ := httptarget.RetryAfter(answer.Header, time.Now())
			o.Wait = later.For
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			c.Error(err)
		}
		o.Tokens = tokensOf(body)
		return o
	})
	return t
}

// drain has drainers of a queue make calls for the whole time. The queue has always something to do.
func (c *contest) drain(spec queue.Spec, drainers int) *tally {
	ctx, cancel := context.WithTimeout(c.Context(), c.long)
	defer cancel()
	e, err := boltq.OpenMemory(ctx, boltq.Options{})
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if _, err := e.Put(ctx, spec, queue.AnyRevision); err != nil {
		c.Fatal(err)
	}
	jobs := make([]queue.Job, 6000)
	for i := range jobs {
		jobs[i] = queue.Job{Queue: spec.Name, ID: fmt.Sprint(i)}
	}
	for from := 0; from < len(jobs); from += 1000 {
		if _, err := e.Append(ctx, jobs[from:from+1000]); err != nil {
			c.Fatal(err)
		}
	}
	t, target := &tally{}, c.target()
	var all sync.WaitGroup
	defer all.Wait()
	for n := range drainers {
		all.Go(func() {
			// A drainer's timers are the system's, which go by real time.
			for number := uint64(1); ctx.Err() == nil; number++ {
				out, err := e.Reserve(ctx, queue.ReserveRequest{
					Client: queue.Client{ID: fmt.Sprint("drainer", n)}, Number: number, Max: 10,
				})
				if err != nil {
					if ctx.Err() == nil {
						c.Error(err)
					}
					return
				}
				for i := range out.Jobs {
					all.Go(func() { c.deliver(context.WithoutCancel(ctx), e, &spec, target, &out.Jobs[i], t) })
				}
				time.Sleep(max(time.Millisecond, min(out.Next, 50*time.Millisecond)))
			}
		})
	}
	return t
}

// deliver makes the call of a job, and settles it as the target for HTTP does.
func (c *contest) deliver(
	ctx context.Context, e queue.Engine, spec *queue.Spec, target *httptarget.Target, j *queue.Reservation, t *tally,
) {
	time.Sleep(j.In)
	answer := c.call(t) //nolint:bodyclose // it is a recorder's
	done := queue.Settlement{
		Lease: queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence}, Verdict: queue.Deliver,
	}
	var err error
	if done.Budget, err = target.BudgetLeft(spec, answer.Header, time.Now(), j.Costs); err != nil {
		c.Error(err)
	}
	if answer.StatusCode == http.StatusTooManyRequests {
		later, _ := httptarget.RetryAfter(answer.Header, time.Now())
		done.Verdict, done.After = queue.Throttle, later.For
	} else {
		used := target.Used(answer, j.Costs)
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			c.Error(err)
		}
		done.Actual, _ = used.End(true)
	}
	if _, err := e.Settle(ctx, []queue.Settlement{done}); err != nil {
		c.Error(err)
	}
}

// target is a target that reads tokens from answers.
func (c *contest) target() *httptarget.Target {
	t := httptarget.Default()
	const text = `{"url": "https://api.openai.com", "actual": {"tokens": {"pointer": "/usage/total_tokens"}}}`
	if err := setting.Decode([]byte(text), "deliver.http", t); err != nil {
		c.Fatal(err)
	}
	if err := t.Check("deliver.http"); err != nil {
		c.Fatal(err)
	}
	return t
}
