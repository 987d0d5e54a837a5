package redisq_test

import (
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/unit"
)

// A store may have a million idle queues, so each must be small: Redis keeps a hash compact only while it has few
// fields and none of its values is longer than 64 bytes, and a queue takes five times as much when it does not.
func TestAnIdleQueueIsSmall(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
	compact := func(after string) {
		t.Helper()
		if is := s.Client().ObjectEncoding(v.ctx, "ps{0}q1").Val(); is != "listpack" {
			t.Errorf("after %s the queue's hash is a %s: %v", after, is, s.Client().HGetAll(v.ctx, "ps{0}q1").Val())
		}
	}
	v.put("email", leaky.PerSecond(1000), nil)
	compact("it was made")
	takes := int64(0)
	for _, key := range []string{"q1", "P:queue:email", "H:queue:email"} {
		takes += s.Client().MemoryUsage(v.ctx, "ps{0}"+key, 0).Val()
	}
	if takes == 0 || takes > 1350 { // and some 180 of its name
		t.Errorf("a queue takes %d bytes", takes)
	}
	v.append(job("email", 1), job("email", 2))
	v.drain("email", 2)
	compact("its jobs were delivered")
	if err := v.e.Pause(v.ctx, "email", queue.Pause{Reason: "the receiver moves"}); err != nil {
		t.Fatal(err)
	}
	if err := v.e.Resume(v.ctx, "email"); err != nil {
		t.Fatal(err)
	}
	compact("it was paused and resumed")
	v.put("email", leaky.RateOf(999_983, 86_400_000_000), func(s *queue.Spec) {
		s.Burst, s.Capacity, s.MaxBytes = 1000, queue.MaxCapacity, queue.MostMaxBytes
		s.Lease, s.Retention.For = unit.Duration(time.Hour), unit.Duration(24*time.Hour)
	})
	compact("it was changed")
}
