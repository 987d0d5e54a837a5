package demo_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/cli/demo"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// outflow is something that takes jobs out of the engine's queue and posts them,
// well or badly: it is given a function that posts one job.
type outflow func(ctx context.Context, engine queue.Engine, post func(id string))

// stage runs the demo over an embedded engine and the given outflow.
func stage(t *testing.T, messages int, out outflow) *demo.Report {
	t.Helper()
	engine, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}()
	server := httptest.NewServer(api.New(engine, api.Options{}))
	defer server.Close()
	c, err := client.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	var mu sync.Mutex
	url := "" // of the demo's receiver, once it is known
	post := func(id string) {
		mu.Lock()
		to := url
		mu.Unlock()
		req, err := http.NewRequest(http.MethodPost, to, strings.NewReader("{}"))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set(receiver.HeaderID, id)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return // the receiver is gone; the report shows it
		}
		_ = resp.Body.Close()
	}
	var text bytes.Buffer
	for i := range messages {
		fmt.Fprintf(&text, "{\"id\":\"m%d\",\"payload\":%d}\n", i, i)
	}
	started := false
	report, err := demo.Run(t.Context(), demo.Options{
		Client: c, Messages: text.Bytes(), Outflow: leaky.PerSecond(200), Offered: leaky.PerSecond(1000), Capacity: 10,
		Limit: 10 * time.Second,
		Watch: func(demo.Scene) {
			if started {
				return
			}
			started = true
			info, err := engine.Get(t.Context(), demo.QueueName)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			url = strings.Split(strings.SplitAfter(string(info.Spec.Deliver), `"url":"`)[1], `"`)[0]
			mu.Unlock()
			wg.Go(func() { out(ctx, engine, post) })
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// drainer takes jobs out at their departures, as far as a test's sleeping goes;
// work calls a function for each job and settles it.
func drainer(work func(id string, post func(string)) queue.Verdict) outflow {
	return func(ctx context.Context, engine queue.Engine, post func(string)) {
		for number := uint64(1); ctx.Err() == nil; number++ {
			got, err := engine.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "test"}, Number: number, Max: 1})
			if err != nil {
				return
			}
			for _, job := range got.Jobs {
				time.Sleep(job.In)
				s := queue.Settlement{
					Lease: queue.Lease{Queue: job.Queue, ID: job.ID, Fence: job.Fence}, Verdict: work(job.ID, post),
				}
				if _, err := engine.Settle(ctx, []queue.Settlement{s}); err != nil {
					return
				}
			}
			if len(got.Jobs) == 0 {
				time.Sleep(min(got.Next, 5*time.Millisecond))
			}
		}
	}
}

func well(id string, post func(string)) queue.Verdict { post(id); return queue.Deliver }

func TestDemoAccountsForEverything(t *testing.T) {
	// Whether the window law holds is a matter of the machine's timing here, and
	// of other tests; that everything is accounted for is not.
	r := stage(t, 120, drainer(well))
	if r.Messages != 120 || r.Accepted != 120 || r.Delivered != 120 || r.Lost+r.Twice+r.Strangers+r.Failed != 0 {
		t.Errorf("%+v", r)
	}
	if r.Refused == 0 {
		t.Error("nothing was refused: 1000/s were offered to a queue of 10 with 200/s out of it")
	}
	for _, b := range r.Broken {
		if !strings.Contains(b, "window law") {
			t.Error(b)
		}
	}
}

// TestDemoDetectsFaults lets the outflow break one promise at a time.
func TestDemoDetectsFaults(t *testing.T) {
	drop := func(id string, post func(string)) queue.Verdict {
		if id != "m7" {
			post(id)
		}
		return queue.Deliver
	}
	double := func(id string, post func(string)) queue.Verdict {
		post(id)
		if id == "m7" {
			post(id)
		}
		return queue.Deliver
	}
	rename := func(id string, post func(string)) queue.Verdict { post("x" + id); return queue.Deliver }
	var saved []string
	burst := func(id string, post func(string)) queue.Verdict {
		if saved = append(saved, id); len(saved) == 20 {
			for _, id := range saved {
				post(id)
			}
			saved = nil
		}
		return queue.Deliver
	}
	for want, work := range map[string]func(string, func(string)) queue.Verdict{
		"never arrived, such as [m7]": drop, "duplicates": double, "not accepted messages": rename, "the window law": burst,
	} {
		t.Run(want, func(t *testing.T) {
			r := stage(t, 40, drainer(work))
			if r.Held || !strings.Contains(strings.Join(r.Broken, "; "), want) {
				t.Errorf("held %v: %v", r.Held, r.Broken)
			}
		})
	}
}
