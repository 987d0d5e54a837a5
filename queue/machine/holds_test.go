package machine_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/machine"
)

// BenchmarkHolds reports the longest time, in milliseconds of processor time, that a call occupies the machine.
// Meanwhile 500,000 jobs are appended and purged, as many are deleted with their queue and swept, and the rule of
// 1,000,000 lanes changes under a drainer. An append has 1,000 jobs.
func BenchmarkHolds(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range b.N {
		h := holds{sizeWorld: newSizeWorld(), longest: map[string]time.Duration{}}
		h.fill(500_000, 0)
		h.purge()
		h.fill(500_000, 0)
		h.hold("delete", func() error {
			_, err := h.Delete(h.now, audit.Actor{}, "q", queue.AnyRevision, true)
			return err
		})
		for h.NeedsSweep(h.now) {
			h.hold("sweep", func() error { h.Sweep(h.now); return nil })
		}
		h.fill(1_000_000, 1_000_000)
		h.put("put", queue.Lanes{LaneRule: queue.LaneRule{MaxInFlight: 1}})
		for range 2000 {
			h.request++
			h.hold("reserve", func() error {
				_, err := h.Reserve(h.now, queue.ReserveRequest{
					Client: queue.Client{ID: "c"}, Number: h.request, Max: 30,
				})
				return err
			})
		}
		for what, d := range h.longest {
			b.ReportMetric(float64(d.Microseconds())/1000, what+"-ms")
		}
	}
}

type holds struct {
	*sizeWorld
	longest map[string]time.Duration
	jobs    int
}

// hold notes how long a call takes, and each part of making it durable.
func (h *holds) hold(what string, call func() error) {
	h.part(what, func() {
		if err := call(); err != nil {
			panic(err)
		}
	})
	var c *machine.Commit
	h.part("collect", func() { c = h.Collect(h.now) })
	if c != nil {
		h.part("durable", func() { h.Durable(c.Number, h.now) })
	}
	h.Signals()
}

func (h *holds) part(what string, call func()) {
	began := processorTime()
	call()
	h.longest[what] = max(h.longest[what], processorTime()-began)
}

func (h *holds) put(what string, lanes queue.Lanes) {
	h.hold(what, func() error {
		s := specText(queue.Spec{Name: "q", Capacity: queue.MaxCapacity, MaxBytes: queue.MostMaxBytes, Lanes: lanes})
		_, _, err := h.Put(h.now, audit.Actor{}, s, queue.AnyRevision)
		return err
	})
}

// fill appends n jobs in that many lanes, or without lanes if 0. As many jobs as possible share a commit.
func (h *holds) fill(n, lanes int) {
	h.put("make", queue.Lanes{})
	for end := h.jobs + n; h.jobs < end; {
		jobs := make([]queue.Job, 1000)
		for i := range jobs {
			jobs[i] = queue.Job{Queue: "q", ID: fmt.Sprint("job-", h.jobs), Payload: make([]byte, 200)}
			if h.jobs++; lanes > 0 {
				jobs[i].Lane = fmt.Sprint("lane-", h.jobs%lanes)
			}
		}
		a := machine.NewAppending(jobs, false)
		for done := false; !done; {
			h.part("append", func() { _, done = h.Append(h.now, a) })
			if !done || h.jobs >= end {
				h.hold("nothing", func() error { return nil })
			}
		}
	}
}

func (h *holds) purge() {
	r := queue.PurgeRequest{Queue: "q", State: queue.Waiting, Limit: queue.MaxPage}
	for more := true; more; more = r.After != "" {
		h.hold("purge", func() error {
			out, _, err := h.Purge(h.now, audit.Actor{}, r)
			r.After = out.Next
			return err
		})
	}
}
