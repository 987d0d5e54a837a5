package grant

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// drift is the maximum relative drift between an engine's clock and this machine's monotonic clock: twice the 500 ppm
	// by which NTP slews a clock (RFC 5905, section 4).
	drift = 1000e-6
	// lateness is how late a job may come: that much of the least default slack is left for it.
	lateness = time.Millisecond
	// vague is an uncertainty that takes half of the least default slack.
	vague = queue.LeastSlack / 2
	// resyncPause is between two calls that are made only to know the clock better.
	resyncPause = time.Second
)

// Clock estimates what an engine's clock shows, from the answers of one partition. Each answer says that the engine's
// clock showed some instant between the request and the answer. The intersection of recent answers is an interval that
// only drift widens. So a slow answer is as precise as a fast one. After K. Marzullo and S. Owicki, "Maintaining the
// Time in a Distributed System", 1983; J. Corbett et al., "Spanner", 2012, call the interval TrueTime.
//
// When an engine's clock is set, an answer that contradicts those before it makes them void. A jump that is shorter
// than a call is noticed after Memory at the latest.
//
// Only Took is safe for concurrent use. The zero Clock knows nothing.
type Clock struct {
	known bool
	zero  time.Time // what the engine's instants are counted from
	base  time.Time // the local instant of zero, as far as the first answer went
	at    time.Time // as of when the bounds hold
	// What recent answers allow, and those before: the engine's zero was at base + early or later, and at base + late or
	// sooner.
	recent, before bounds
	turned         time.Time // since when answers are recent

	lead   time.Duration
	told   time.Duration // the uncertainty, with the last request
	client string        // whose request that was
	number uint64        // of that request
	took   atomic.Int64  // the longest since the last request, in ns
	synced time.Time     // when Resync last asked for a call
}

// Memory is how long an answer counts at most.
const Memory = 2 * time.Second

// bounds are the earliest and the latest that something can be.
type bounds struct{ early, late time.Duration }

var anything = bounds{math.MinInt64 / 2, math.MaxInt64 / 2}

func (b bounds) and(o bounds) bounds { return bounds{max(b.early, o.early), min(b.late, o.late)} }

func (b bounds) widened(by time.Duration) bounds { return bounds{b.early - by, b.late + by} }

func (b bounds) excludes(o bounds) bool { return o.late < b.early || o.early > b.late }

// Took records the time from a request until a granted job could start. The engine is told the longest recent one, and
// grants the next departures that far ahead.
func (c *Clock) Took(d time.Duration) {
	for was := c.took.Load(); int64(d) > was && !c.took.CompareAndSwap(was, int64(d)); was = c.took.Load() {
	}
}

// leads takes in how long it took. What was slow once is forgotten slowly. Nobody knows how long the first grants will
// take to arrive, when all partitions ask at once and no spec is known.
func (c *Clock) leads(took time.Duration) {
	if !c.known {
		c.lead = queue.Horizon / 2
	}
	if took = max(took, time.Duration(c.took.Swap(0))); took > c.lead {
		c.lead = took
	} else {
		c.lead -= (c.lead - took) / 8
	}
}

// Observe takes in that the engine's clock showed now between two local instants.
func (c *Clock) Observe(now, asked, answered time.Time) {
	took := answered.Sub(asked)
	c.leads(took)
	if !c.known {
		c.known, c.zero, c.base = true, now, asked
		c.recent, c.before, c.at, c.turned = anything, anything, answered, answered
	}
	apart := drifted(answered.Sub(c.at))
	c.recent, c.before, c.at = c.recent.widened(apart), c.before.widened(apart), answered
	if age := answered.Sub(c.turned); age >= Memory/2 {
		c.before, c.recent, c.turned = c.recent, anything, answered
		if age >= Memory {
			c.before = anything
		}
	}
	elapsed := now.Sub(c.zero)
	said := bounds{asked.Sub(c.base) - elapsed, answered.Sub(c.base) - elapsed}.widened(drifted(took))
	if c.bounds().excludes(said) {
		c.recent, c.before = anything, anything
	}
	c.recent = c.recent.and(said)
}

// bounds are what all answers that count allow.
func (c *Clock) bounds() bounds { return c.recent.and(c.before) }

// drifted returns the maximum drift of the clocks over a duration.
func drifted(d time.Duration) time.Duration { return time.Duration(math.Ceil(float64(d) * drift)) }

// uncertainty is how far apart the bounds are.
func (c *Clock) uncertainty() time.Duration {
	if !c.known {
		return 0
	}
	b := c.bounds()
	return b.late - b.early
}

// Window returns the local instants between which the engine's clock shows at, and the end of a lease that begins then.
func (c *Clock) Window(at time.Time, lease time.Duration) Window {
	since, b := at.Sub(c.zero), c.bounds()
	departs := c.base.Add(since + b.early)
	return Window{
		Departs: departs, Earliest: c.base.Add(since + b.late), LeaseEnd: departs.Add(lease),
		told: c.told,
	}
}

// Request returns a request with what the engine should know of the client: its lead, its uncertainty, and the last
// instant that the engine's clock can show now.
func (c *Clock) Request(r queue.ReserveRequest, now time.Time) queue.ReserveRequest {
	if c.known {
		r.Latest = c.latest(now)
	}
	r.Lead = max(0, c.lead-lateness)
	told := time.Duration(0)
	if u := c.uncertainty(); u > vague && u <= queue.Horizon {
		told = u
	}
	if r.Number == c.number && r.Client.ID == c.client { // for a repeated request, the engine may use the first
		told = min(told, c.told)
	}
	r.Uncertainty, c.told, c.client, c.number = told, told, r.Client.ID, r.Number
	return r
}

// latest is the last instant that the engine's clock can show.
func (c *Clock) latest(at time.Time) time.Time {
	return c.zero.Add(at.Sub(c.base) - c.bounds().early + drifted(at.Sub(c.at)))
}

// Resync reports whether a call should be made that asks for no jobs, to know the clock before some are granted: at
// first, and once in a while when the uncertainty has grown.
func (c *Clock) Resync(now time.Time) bool {
	if c.known && (c.uncertainty() <= vague || now.Sub(c.synced) < resyncPause) {
		return false
	}
	c.synced = now
	return true
}
