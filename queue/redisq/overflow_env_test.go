package redisq_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// overflowing is a store of one partition with a queue of two places, "email",
// that is full with the jobs 1 and 2; the jobs from 3 on are set aside.
func overflowing(t *testing.T, aside ...int) (v *env, s *redistest.Server, kept []queue.Readmission) {
	t.Helper()
	s = redistest.New(t, redistest.Options{})
	v = open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
	v.put("email", leaky.Unlimited, enginetest.Deferring(2))
	v.append(job("email", 1), job("email", 2))
	return v, s, v.setAside("email", aside...)
}

func (v *env) offer(jobs ...queue.Job) []queue.Appended {
	v.t.Helper()
	a, err := v.e.Offer(v.ctx, jobs)
	if err != nil {
		v.t.Fatal(err)
	}
	return a
}

// setAside offers jobs that must be set aside, and returns them as they are kept
// on the overflow.
func (v *env) setAside(queueName string, numbers ...int) []queue.Readmission {
	v.t.Helper()
	var kept []queue.Readmission
	for _, n := range numbers {
		j := job(queueName, n)
		a := v.offer(j)[0]
		if a.Outcome != queue.SetAside {
			v.t.Fatalf("offer: %+v, want it set aside", a)
		}
		kept = append(kept, queue.Readmission{Job: j, Order: int64(n), Ticket: a.Ticket, At: a.At})
	}
	return kept
}

func request(queueName string, jobs ...queue.Readmission) queue.ReadmitRequest {
	return queue.ReadmitRequest{Queue: queueName, Holder: "holder", Overflow: "shelf", Jobs: jobs}
}

func (v *env) readmit(queueName string, jobs ...queue.Readmission) queue.Readmitted {
	v.t.Helper()
	r, err := v.e.Readmit(v.ctx, request(queueName, jobs...))
	if err != nil || r.Busy > 0 {
		v.t.Fatalf("readmit: %+v, %v", r, err)
	}
	return r
}

func (v *env) backlogged() []string {
	v.t.Helper()
	names, err := v.e.Backlogged(v.ctx, 100)
	if err != nil {
		v.t.Fatal(err)
	}
	return names
}

// within polls until a condition holds.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); await.Pause(begun) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// subscribed waits until somebody listens on a channel.
func subscribed(t *testing.T, c *redis.Client, channel string) {
	t.Helper()
	within(t, "a subscription of "+channel, func() bool {
		n, err := c.PubSubNumSub(t.Context(), channel).Result()
		return err == nil && n[channel] > 0
	})
}
