package queuetest

import (
	"fmt"
	"time"

	form "github.com/penstock/penstock/internal/test/long"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// backlog makes a queue with very many jobs, j00001 first, and a function that changes its settings.
func (r *rig) backlog(rate string, change ...func(*queue.Spec)) (q string, n int, put func(...func(*queue.Spec))) {
	r.Helper()
	n = form.Of(3000, 100_000)
	put = func(change ...func(*queue.Spec)) { r.queue("q", rate, append(change, withCapacity(int64(n)))...) }
	put(change...)
	r.fills("q", n)
	return "q", n, put
}

// still checks that all jobs of a backlog but so many wait, and when the last one is expected, counted from t0: never
// too early, and late by less than the interval of a limit that only the forecast in steps knows.
func (r *rig) still(queueName string, n, left int, t0 leaky.Instant, last, interval time.Duration) {
	r.Helper()
	if i := r.info(queueName); int(i.Waiting) != n-left {
		r.Errorf("%d jobs wait, want %d - %d", i.Waiting, n, left)
	}
	if at := instantOf(r.job(queueName, fmt.Sprintf("j%05d", n)).ETA.At).Sub(t0); at < last || at > last+interval {
		r.Errorf("the last of %d jobs is expected in %v, want %v + %v", n-left, at, last, interval)
	}
}

// liveChangeRules are about specs that change while very many jobs wait. Weights have rules of their own.
var liveChangeRules = []rule{
	{"a unit added charges what waits with its estimate, at once", func(r *rig) {
		q, n, put := r.backlog("unlimited")
		r.deliver(r.grant(q, 2, "j00001", "j00002")...)
		put(metered("10/s 20"), estimating("tokens=20"))
		r.clock.Advance(2 * queue.Horizon) // a departure right after the change would not be corrected
		t0 := r.clock.Now()
		r.still(q, n, 2, t0, time.Duration(n-3)*2*time.Second, 0)
		r.settled(queue.Delivered, actual(r.grant(q, 9, "j00003")[0], "tokens=0"))
		r.sameDepartures(r.departureTimes(q, t0, 2), "j00004@0s j00005@2s")
		put(metered("10/s 20", "images 1/4s"), estimating("tokens=20 images=1"))
		r.sameDepartures(r.departureTimes(q, t0, 2), "j00006@4s j00007@8s")
		r.still(q, n, 7, t0, time.Duration(n-7)*4*time.Second+8*time.Second, 4*time.Second)
		put()
		r.still(q, n, 7, r.clock.Now(), 0, 0)
		r.deliver(r.reserve(q, queue.MaxReserve)...)
	}},
	{"hours that close now let nothing leave until they begin", func(r *rig) {
		open := form.Of("13:00-13:30", "13:00-14:00") // a forecast follows 32 spans one by one
		q, n, put := r.backlog("1/s")
		t0 := r.clock.Now()
		r.sameDepartures(r.departureTimes(q, t0, 2), "j00001@0s j00002@1s")
		put(opening(open))
		r.grant(q, 9)
		each := form.Of(1800, 3600)             // jobs a day
		days, seconds := (n-3)/each, (n-3)%each // after j00003
		r.still(q, n, 2, t0, time.Duration(days)*day+time.Hour+time.Duration(seconds)*time.Second, 0)
		r.sameDepartures(r.departures(q, t0, 2), "j00003@1h0m0s j00004@1h0m1s")
		put(opening("14:00-14:30"))
		r.grant(q, 9)
		put()
		r.sameDepartures(r.departureTimes(q, t0, 2), "j00005@1h0m2s j00006@1h0m3s")
		r.still(q, n, 6, t0, time.Hour+time.Duration(n-3)*time.Second, 0)
	}},
	{"a replaced ramp goes on where the old one was", func(r *rig) {
		q, n, put := r.backlog("unlimited", limited("quota 100/d ramp 100 200 hold"))
		t0 := r.clock.Now()
		r.order(q, 100)
		r.grant(q, 9)
		put(limited("quota 150/d ramp 150 300 2000 hold"))
		r.quotaNow(q, 100, 150, 300)
		r.order(q, 50)
		r.grant(q, 9)
		days := (n - 450 + 1999) / 2000 // after the second
		r.still(q, n, 150, t0, time.Duration(days)*day+12*time.Hour, 0)
		r.clock.Set(t0.Add(12 * time.Hour))
		r.order(q, 300)
		r.grant(q, 9)
	}},
}
