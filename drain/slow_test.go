package drain_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// A hanging receiver opens its queue's circuit long before any attempt times out, for any lease and any number of
// drainers. It is then probed, and an answer closes the circuit.
func TestAHangOpensTheCircuit(t *testing.T) {
	for _, lease := range []time.Duration{time.Second, queue.DefaultLease, 2 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			e := embedded(t)
			defer e.Close()
			put(t, e, queue.Spec{Name: "hangs", Rate: leaky.PerSecond(1), Lease: unit.Duration(lease)})
			push(t, e, "hangs", 0, 500)
			r := &receivers{takes: map[string]time.Duration{"hangs": 5 * time.Minute}, came: map[string]int{}}
			one := start(e, drain.HandlerFunc(r.handle), drain.Options{PlainTimers: true, Grace: time.Millisecond})
			two := start(e, drain.HandlerFunc(r.handle), drain.Options{PlainTimers: true, Grace: time.Millisecond})
			time.Sleep(49900 * time.Millisecond)
			if i := info(t, e, "hangs"); i.Circuit.Open() || i.Circuit.Failures != 4 {
				t.Errorf("lease %v: before 10 s have passed five times the circuit is %+v", lease, i.Circuit)
			}
			time.Sleep(time.Second)
			if i := info(t, e, "hangs"); !i.Circuit.Open() || i.Circuit.Reason != queue.SlowReason ||
				i.Stop.Cause != queue.StopDown {
				t.Errorf("lease %v: the circuit is %+v, the stop %+v", lease, i.Circuit, i.Stop)
			}
			time.Sleep(3 * time.Minute)
			if n := r.counts()["hangs"]; n < 55 || n > 60 { // 50, and probes after 1, 2, 4 ... 60 s
				t.Errorf("lease %v: %d attempts in four minutes", lease, n)
			}
			time.Sleep(90 * time.Second) // the first of them is answered
			if i := info(t, e, "hangs"); i.Circuit.Open() || i.Delivered == 0 {
				t.Errorf("lease %v: after %d answers the circuit is %+v", lease, i.Delivered, i.Circuit)
			}
			one.finish(t)
			two.finish(t)
		})
	}
}

// One attempt is enough, whenever its lease has to be extended.
func TestASingleHangOpensTheCircuit(t *testing.T) {
	for _, lease := range []time.Duration{27 * time.Second, queue.DefaultLease} {
		synctest.Test(t, func(t *testing.T) {
			e := embedded(t)
			defer e.Close()
			put(t, e, queue.Spec{Name: "hangs", Rate: leaky.PerSecond(1), MaxInFlight: 1, Lease: unit.Duration(lease)})
			push(t, e, "hangs", 0, 5)
			r := &receivers{takes: map[string]time.Duration{"hangs": time.Hour}, came: map[string]int{}}
			d := start(e, drain.HandlerFunc(r.handle), drain.Options{PlainTimers: true, Grace: time.Millisecond})
			time.Sleep(52 * time.Second)
			if i := info(t, e, "hangs"); !i.Circuit.Open() {
				t.Errorf("lease %v: the circuit is %+v", lease, i.Circuit)
			}
			d.finish(t)
		})
	}
}

// A receiver that is slow but answers is stopped only until its first answers, and not at all if they come before
// circuit.slow has passed as often as failures open the circuit.
func TestASlowReceiverDoesNotHang(t *testing.T) {
	for _, tt := range []struct {
		what  string
		takes func(n int) time.Duration
		opens int
	}{
		{"20 s", func(int) time.Duration { return 20 * time.Second }, 0},
		{"15 s or 1", func(n int) time.Duration { return time.Duration(1+14*min(1, n%10)) * time.Second }, 0},
		{"5 to 25 s", func(n int) time.Duration { return 5*time.Second + time.Duration(n*7%21)*time.Second }, 0},
		{"a minute", func(int) time.Duration { return time.Minute }, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			const jobs = 600
			e := embedded(t)
			defer e.Close()
			put(t, e, queue.Spec{Name: "slow", Rate: leaky.PerSecond(2)})
			push(t, e, "slow", 0, jobs)
			var came atomic.Int64
			handle := func(context.Context, *drain.Job) error {
				time.Sleep(tt.takes(int(came.Add(1))))
				return nil
			}
			d := start(e, drain.HandlerFunc(handle), drain.Options{PlainTimers: true, Grace: time.Millisecond})
			opens, open := 0, false
			for range 2*60 + jobs/2 {
				time.Sleep(time.Second)
				if now := info(t, e, "slow").Circuit.Open(); now != open {
					if open = now; open {
						opens++
					}
				}
			}
			if i := info(t, e, "slow"); i.Delivered != jobs || open || opens != tt.opens {
				t.Errorf("%s: %d of %d delivered; the circuit opened %d times: %+v", tt.what, i.Delivered, jobs, opens, i.Circuit)
			}
			d.finish(t)
		})
	}
}
