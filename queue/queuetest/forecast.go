package queuetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
)

// scenario is a queue whose departures a forecast must foretell.
type scenario struct {
	name string
	// set sets the queue up, and other queues of its group. of is its name; "" is q.
	set func(r *rig)
	of  string
	// flight is how long a delivery takes, and warm for how long jobs leave before the first forecast.
	flight, warm time.Duration
	cost         int64 // of the most expensive job; 0 is 1
	// alone says that nobody asks for jobs.
	alone bool
	// besides are other clients that ask: of the pull queues with these names; "" is a drainer.
	besides []string
	// exact and never are what the first forecast must say.
	exact, never bool
}

// course is what happened in a scenario.
type course struct {
	*rig
	scenario
	departed  []leaky.Instant          // of q, in the order of the grants
	left      map[string]leaky.Instant // the same by id
	pull      bool
	quoted    foretoldQuote
	flying    []landing
	forecasts []foretold
}

type landing struct {
	at  leaky.Instant
	job queue.Reservation
}

// foretold is a forecast, and how many jobs had been granted before.
type foretold struct {
	queue.Forecast
	at     leaky.Instant
	before int
}

// foretoldQuote is a quote, and when it was asked for.
type foretoldQuote struct {
	quote.Dates
	at    leaky.Instant
	round time.Duration // in which each lane has its turn
}

// mostQuiet is after how long without a departure nothing more is expected to leave.
const mostQuiet = 50 * time.Hour

// forecasts is how many forecasts each scenario makes.
const forecasts = 10

func (s scenario) rule() rule {
	return rule{s.name, func(r *rig) {
		s.of = cmp.Or(s.of, "q")
		if !s.alone {
			r.reserve(s.of, 1) // a drainer is there
		}
		s.set(r)
		c := &course{rig: r, scenario: s, left: map[string]leaky.Instant{}}
		i := r.info(s.of)
		c.run(int(i.Waiting+i.Scheduled+i.Deferred) + newcomers)
		c.check()
		c.checkQuote()
	}}
}

// newcomers is how many jobs a scenario quotes and then appends.
const newcomers = 5

// quote asks for a quote of jobs without a lane, and appends them.
func (c *course) quote() {
	c.Helper()
	l := c.lineup(c.of)
	_, lane := c.lane(c.of, "")
	q, err := quote.Request{Jobs: newcomers, Cost: c.cost}.Quote(&l, &lane)
	c.rig.check(err)
	c.quoted = foretoldQuote{q.Now, c.clock.Now(), c.round(&l)}
	for _, id := range numbered("new", newcomers) {
		c.acceptJobs(costing(max(1, c.cost), c.of, id))
	}
}

// round is how long it takes until each lane of the queue, and of equal siblings, has had its turn.
func (c *course) round(l *queue.Lineup) time.Duration {
	slowest := l.Spec.Rate.Interval()
	if l.Parent != nil {
		slowest = max(slowest, l.Parent.Spec.Rate.Interval()*time.Duration(1+len(l.Siblings)))
	}
	return slowest * time.Duration(max(1, c.cost)*(l.Info.Lanes+1))
}

// checkQuote compares the quote with what happened.
func (c *course) checkQuote() {
	c.Helper()
	ids := numbered("new", newcomers)
	for _, d := range []struct {
		id     string
		quoted time.Time
	}{{ids[0], c.quoted.First}, {ids[newcomers-1], c.quoted.Last}} {
		at, left := c.left[d.id]
		if left == d.quoted.IsZero() {
			c.Errorf("%s: left is %v, but quoted was %v", d.id, left, d.quoted)
		}
		if !left {
			continue
		}
		want := at.Sub(c.quoted.at)
		bound := max(time.Microsecond, want/100) // see run
		if !c.quoted.Exact {
			bound = c.bound(want) + c.quoted.round
		}
		if off := (d.quoted.Sub(c.quoted.at.Time()) - want).Abs(); off > bound {
			c.Errorf(
				"%s left after %v, quoted was %v, off by %v of %v", d.id, want, d.quoted.Sub(c.quoted.at.Time()), off, bound,
			)
		}
	}
}

// bound is how far a forecast may be off, unless it is exact.
func (c *course) bound(after time.Duration) time.Duration {
	bound := c.interval() + after/20 + c.flight
	if c.laned() { // a lane waits for its rate, and then for its turn
		bound += c.interval()
	}
	return bound
}

func (c *course) laned() bool {
	lanes := c.info(c.of).Spec.Lanes
	return lanes.HasRate() || len(lanes.Overrides) > 0
}

// run lets all jobs leave.
func (c *course) run(total int) {
	c.Helper()
	begin := c.clock.Now()
	if c.pull = c.info(c.of).Spec.Pull; c.pull {
		c.turn() // so is a worker
	}
	for quiet := time.Duration(0); quiet < mostQuiet; {
		gone := len(c.departed)
		if c.warm == 0 {
			c.foretellIf(total)
		}
		next := c.turn()
		if c.warm > 0 && c.clock.Now().Sub(begin) >= c.warm {
			c.foretellIf(total)
		}
		landed, lands := c.landing()
		if len(c.departed) > gone {
			quiet = 0
		}
		if landed || len(c.departed) > gone { // the engine would wake its client
			continue
		}
		if len(c.departed) >= total || quiet > time.Minute {
			if i := c.info(c.of); i.Waiting+i.Scheduled+i.Deferred+i.Leased == 0 {
				return
			}
		}
		wait := max(min(next, lands), time.Millisecond)
		wait = max(wait, (quiet / 100).Truncate(time.Second)) // asking seldom delays a departure by at most 1%
		wait = c.untilHours(wait)
		quiet += wait
		c.clock.Advance(wait)
	}
}

// untilHours returns how long to wait, at most until the hours of the queue or its parent begin: a late first departure
// would leave less of a short span.
func (c *course) untilHours(wait time.Duration) time.Duration {
	if wait < time.Minute {
		return wait
	}
	i := c.info(c.of)
	for _, of := range []*queue.Info{&i, i.Parent} {
		if of == nil || !of.Spec.Hours.On() {
			continue
		}
		if left := instantOf(of.Next).Sub(c.clock.Now()); left > 0 {
			wait = min(wait, left)
		}
	}
	return wait
}

// foretellIf makes the next forecast if enough has left since the last one.
func (c *course) foretellIf(total int) {
	c.Helper()
	if len(c.forecasts) == forecasts || len(c.departed) < len(c.forecasts)*total/forecasts {
		return
	}
	if len(c.forecasts) == 0 {
		c.quote()
	}
	l := c.lineup(c.of)
	f, err := quote.Curve(&l, queue.ForecastRequest{})
	c.rig.check(err)
	c.forecasts = append(c.forecasts, foretold{f, c.clock.Now(), len(c.departed)})
}

// turn asks for jobs once, and returns when to ask again.
func (c *course) turn() time.Duration {
	c.Helper()
	if c.alone {
		return time.Hour
	}
	req := c.request("client", c.of, queue.MaxReserve)
	if c.pull {
		req = c.pulling("client", c.of, queue.MaxReserve)
	}
	next := c.asks(req)
	for _, name := range c.besides {
		req = c.request("client", c.of, queue.MaxReserve)
		if name != "" {
			req = c.pulling("client", name, queue.MaxReserve)
		}
		next = min(next, c.asks(req))
	}
	return next
}

// asks makes a request, and returns when to ask again.
func (c *course) asks(req queue.ReserveRequest) time.Duration {
	c.Helper()
	res := c.do(req)
	for _, v := range res.Jobs {
		at := c.departure(v)
		if v.Queue == c.of {
			c.departed, c.left[v.ID] = append(c.departed, at), at
		}
		c.flying = append(c.flying, landing{at.Add(c.flight), v})
	}
	return res.Next
}

// landing ends deliveries that are over, and returns whether there were any and when the next one is.
func (c *course) landing() (landed bool, next time.Duration) {
	c.Helper()
	next, now, flying := time.Hour, c.clock.Now(), len(c.flying)
	c.flying = slices.DeleteFunc(c.flying, func(l landing) bool {
		if l.at > now {
			next = min(next, l.at.Sub(now))
			return false
		}
		c.settled(queue.Delivered, settlement(queue.Deliver, l.job))
		return true
	})
	return len(c.flying) < flying, next
}

// check compares the forecasts with what happened.
func (c *course) check() {
	c.Helper()
	interval := c.interval()
	var offs []time.Duration
	for n, f := range c.forecasts {
		rest := c.departed[f.before:]
		left := int(math.Round(f.Bends[0].Remaining))
		if never := len(rest) < left; never != f.Never() {
			c.Errorf(
				"forecast %d, at %v: never is %v, but %d of %d jobs left\n%s", n, f.at.Time(), f.Never(), len(rest), left, show(f),
			)
			return
		}
		if n == 0 && (f.Exact != c.exact || f.Never() != c.never) {
			c.Errorf("exact %v, never %v; want %v, %v\n%s", f.Exact, f.Never(), c.exact, c.never, show(f))
		}
		for k := 1; k <= len(rest); k++ {
			got, rate := f.leaves(float64(left - k))
			want := rest[k-1].Sub(f.at)
			bound := interval
			if !f.Exact {
				bound = c.bound(want)
			}
			if rate > 0 {
				bound += max(0, time.Duration(float64(time.Second)/rate)-interval)
			}
			off := (got - want).Abs()
			if offs = append(offs, off); off > bound {
				c.Errorf(
					"forecast %d, at %v: job %d of %d left after %v, forecast was %v, off by %v of %v\n%s", n, f.at.Time(), k,
					left, want, got, off, bound, show(f),
				)
				return
			}
		}
	}
	if len(c.forecasts) == 0 {
		c.Errorf("no forecast was made")
	}
	if n := len(offs); n > 0 {
		slices.Sort(offs)
		c.Logf("p99 of %d departures is off by %v of %v", n, offs[n*99/100].Round(time.Millisecond), interval)
	}
}

// interval is the longest interval between two departures that the queue's paces ask for, and how far a grant may be
// ahead.
func (c *course) interval() time.Duration {
	s := c.info(c.of).Spec
	longest := s.Rate.Interval()
	for _, l := range s.Limits {
		longest = max(longest, l.Rate.Interval())
	}
	of := func(rule queue.LaneRule) {
		longest = max(longest, rule.Rate.Interval())
		for _, l := range rule.Limits.List() {
			longest = max(longest, l.Rate.Interval()*time.Duration(s.Estimate[l.Unit].Default))
		}
	}
	of(s.Lanes.LaneRule)
	for _, rule := range s.Lanes.Overrides {
		of(rule)
	}
	return time.Duration(max(1, c.cost))*longest + queue.Horizon
}

// leaves returns when a forecast has that many jobs left, and at which rate jobs leave before.
func (f *foretold) leaves(left float64) (in time.Duration, rate float64) {
	for n := 1; n < len(f.Bends); n++ {
		a, b := f.Bends[n-1], f.Bends[n]
		if b.Remaining > left+1e-6 {
			continue
		}
		part := 1.0
		if a.Remaining > b.Remaining {
			part = max(0, min(1, (a.Remaining-left)/(a.Remaining-b.Remaining)))
		}
		return a.At.Add(time.Duration(part * float64(b.At.Sub(a.At)))).Sub(f.at.Time()), a.Rate
	}
	return math.MaxInt64, 1
}

func show(f foretold) string {
	text := ""
	for n, b := range f.Bends {
		if n > 20 {
			return text + "...\n"
		}
		text += fmt.Sprintf("%v: %.2f left, %.4f/s by %s %s\n", b.At.Sub(f.at.Time()), b.Remaining, b.Rate, b.By, b.Reason)
	}
	return text
}

// spread appends jobs to lanes, in turn: counts are the numbers of jobs of the lanes.
func (r *rig) spread(queueName string, counts ...int) {
	r.Helper()
	var list []queue.Job
	for n := 0; ; n++ {
		any := false
		for lane, count := range counts {
			if n < count {
				any = true
				list = append(list, jobOfLane(fmt.Sprint("lane-", lane), queueName, fmt.Sprintf("l%d-%d", lane, n)))
			}
		}
		if !any {
			break
		}
	}
	for some := range slices.Chunk(list, 500) {
		r.acceptJobs(some...)
	}
}

func (r *rig) fills(queueName string, n int) {
	r.Helper()
	for some := range slices.Chunk(numbered("j", n), 500) {
		r.accept(queueName, some...)
	}
}
