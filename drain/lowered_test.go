package drain_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/unit"
)

// A queue's lease may be changed while one of its jobs runs. The drainer relies on the remainder of the lease, and no
// second handler runs beside a healthy one.
func TestLeaseChangedUnderAJob(t *testing.T) {
	for _, c := range []struct {
		name   string
		leases []time.Duration // of the spec, from the grant on
		each   time.Duration   // time between two changes
	}{
		{"lowered before the first extension", []time.Duration{30 * time.Second, time.Second}, 5 * time.Second},
		{"lowered after it", []time.Duration{30 * time.Second, time.Second}, 12 * time.Second},
		{"lowered at the very end", []time.Duration{3 * time.Second, time.Second}, 999 * time.Millisecond},
		{
			"lowered again and again",
			[]time.Duration{10 * time.Minute, time.Minute, 10 * time.Second, time.Second},
			7 * time.Second,
		},
		{"raised", []time.Duration{time.Second, time.Minute}, 5 * time.Second},
		{
			"back and forth",
			[]time.Duration{time.Second, time.Minute, time.Second, 30 * time.Second, time.Second},
			11 * time.Second,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				spec := queue.Spec{Name: "q", Rate: leaky.Unlimited, Lease: unit.Duration(c.leases[0])}
				put(t, e, spec)
				push(t, e, "q", 0, 1)
				work := c.leases[0] + time.Minute
				r := newRecord(work)
				one := start(e, drain.HandlerFunc(r.handle), drain.Options{PlainTimers: true})
				two := start(e, drain.HandlerFunc(r.handle), drain.Options{PlainTimers: true})
				synctest.Wait()
				for _, lease := range c.leases[1:] {
					time.Sleep(c.each)
					spec.Lease = unit.Duration(lease)
					put(t, e, spec)
				}
				time.Sleep(work)
				one.finish(t)
				two.finish(t)
				r.once(t, 1)
				if i := info(t, e, "q"); i.Delivered != 1 || i.Expired != 0 {
					t.Errorf("%d delivered, %d leases ran out", i.Delivered, i.Expired)
				}
			})
		})
	}
}

// When extending fails, a lowered lease counts until the previous deadline, and no longer.
func TestLoweredLeaseInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		spec := queue.Spec{Name: "q", Rate: leaky.Unlimited}
		put(t, e, spec)
		push(t, e, "q", 0, 1)
		began := time.Now()
		told := make(chan time.Time, 10)                                   // of each delivery
		cut := &unreachable{Outflow: e, from: began.Add(12 * time.Second)} // behind the first extension
		one := start(cut, drain.HandlerFunc(func(ctx context.Context, _ *drain.Job) error {
			<-ctx.Done()
			told <- time.Now()
			return context.Cause(ctx)
		}), drain.Options{PlainTimers: true})
		time.Sleep(5 * time.Second)
		spec.Lease = unit.Duration(time.Second)
		put(t, e, spec)
		time.Sleep(35 * time.Second)
		one.finish(t)
		// The grant's 30 s, and the interval of the drainer's checks.
		if after := (<-told).Sub(began); after < 30*time.Second || after > 30*time.Second+200*time.Millisecond {
			t.Errorf("canceled after %v", after)
		}
	})
}

// unreachable fails to extend from an instant on.
type unreachable struct {
	queue.Outflow
	from time.Time
}

func (u *unreachable) Extend(ctx context.Context, leases []queue.Lease) ([]queue.Extended, error) {
	if !time.Now().Before(u.from) {
		return nil, queue.ErrUnavailable
	}
	return u.Outflow.Extend(ctx, leases)
}
