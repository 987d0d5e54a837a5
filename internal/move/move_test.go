package move

import (
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A queue whose rate adapted above its spec's, and whose burst is used up, does not get another burst by being moved.
func TestMovedBucket(t *testing.T) {
	now := leaky.Instant(1_800_000_000_000_000)
	fast := leaky.Pacer{Rate: leaky.PerSecond(100), Burst: 10, Horizon: queue.Horizon}
	var b leaky.Bucket
	for range fast.Burst {
		if _, ok := fast.Take(&b, now, 1); !ok {
			t.Fatal("the burst is not let out")
		}
	}
	info := &queue.Info{
		Spec: queue.Spec{Rate: leaky.PerSecond(10), Burst: 10}, Rate: leaky.PerSecond(100), Bucket: b, Now: now.Time(),
	}
	slow := info.Spec.Pacer(queue.Horizon)
	if again := slow.Next(b, now); again != now {
		t.Fatalf("as it is it would not let another out before %v: the test shows nothing", again.Sub(now))
	}
	if next := slow.Next(Bucket(info), now); next.Sub(now) < 90*time.Millisecond {
		t.Errorf("the next leaves after %v", next.Sub(now))
	}
	info.Rate = info.Spec.Rate
	if Bucket(info) != b {
		t.Error("one that is not adapted is changed")
	}
}
