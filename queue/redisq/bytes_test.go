package redisq_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// One queue to which nobody set a bound cannot fill a small Redis: others go on taking jobs in.
func TestOneQueueCannotFillTheStore(t *testing.T) {
	s := redistest.New(t, redistest.Options{MaxMemory: "64mb"})
	v := open(t, s.Client(), redisq.Options{Init: true})
	v.put("large", leaky.Unlimited, nil)
	v.put("other", leaky.Unlimited, nil)
	accepted := int64(0)
	for i := range 42 {
		j := job("large", i)
		j.Payload = make([]byte, 1_000_000)
		switch a := v.append(j)[0]; {
		case a.Outcome == queue.Accepted:
			accepted++
		case a.Outcome != queue.Full || a.Bytes.Max != 16<<20 || a.Bytes.Held != v.info("large").Bytes ||
			a.Bytes.Needs < 1_000_000 || a.RetryAfter <= 0:
			t.Fatalf("job %d: %+v", i, a)
		}
		if a := v.append(job("other", i))[0]; a.Outcome != queue.Accepted {
			t.Fatalf("job %d of another queue: %+v", i, a)
		}
	}
	if i := v.info("large"); accepted != 16 || i.Waiting != accepted {
		t.Errorf("%d accepted, %+v", accepted, i)
	}
}

// Appends stop before Redis refuses what writes, whatever the queues and their number; what frees memory goes on, and
// then appends do.
func TestAppendsLeaveSomeMemory(t *testing.T) {
	s := redistest.New(t, redistest.Options{MaxMemory: "24mb"})
	v := open(t, s.Client(), redisq.Options{Init: true})
	for i := range 20 {
		v.put(fmt.Sprint("q", i), leaky.Unlimited, func(s *queue.Spec) {
			s.MaxBytes,
				s.Retention.Max = queue.MostMaxBytes, 1
		})
	}
	var refused error
	for i := 0; refused == nil; i++ {
		j := job(fmt.Sprint("q", i%20), i)
		j.Payload = make([]byte, 50_000)
		_, refused = v.e.Append(v.ctx, []queue.Job{j})
	}
	if !errors.Is(refused, queue.ErrStoreFull) {
		t.Fatal(refused)
	}
	space, err := v.e.Space(v.ctx)
	if err != nil || space.Used >= space.Limit || !space.Filling() {
		t.Fatalf("%+v, %v", space, err)
	}
	if err := s.Client().Set(v.ctx, "of somebody else", "x", 0).Err(); err != nil {
		t.Errorf("no memory is left: %v", err)
	}
	for i := range 20 {
		q := fmt.Sprint("q", i)
		v.drain(q, int(v.info(q).Waiting))
	}
	until := time.Now().Add(redistest.Patience)
	for {
		if _, refused = v.e.Append(v.ctx, []queue.Job{job("q0", -1)}); refused == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("with memory free again: %v", refused)
		}
	}
}
