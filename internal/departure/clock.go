package departure

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// drift is the maximum relative drift between an engine's clock and this machine's monotonic clock: twice the 500
	// ppm by which NTP slews a clock (RFC 5905, section 4).
	drift = 1000e-6
	// lateness is how late a job may arrive: this part of the least default slack is reserved for it.
	lateness = time.Millisecond
	// vague is an uncertainty that uses half of the least default slack.
	vague = queue.LeastSlack / 2
	// The time from an answer to a call made only to know the clock better doubles from the shortest pause to the longest.
	// The first calls often take long, because connections are new and scripts are not loaded.
	shortestPause, longestPause = 10 * time.Millisecond, time.Second
)

// Clock estimates an engine's clock from the answers of one partition. Each answer says that the engine's clock showed
// some instant between the request and the answer. The intersection of recent answers is an interval that only drift
// widens, so a slow answer does no harm. After K. Marzullo and S. Owicki, "Maintaining the Time in a Distributed
// System", 1983; J. Corbett et al., "Spanner", 2012, call the interval TrueTime.
//
// When an engine's clock is set, an answer that contradicts earlier ones voids them. A jump shorter than a call is
// noticed after Memory at the latest.
//
// Only Took is safe for concurrent use. The zero Clock knows nothing.
type Clock struct {
	// Usual has the lead follow usual calls and ignore a single slow one: see trips. It is for clients that wait for each
	// job. Such a job is late after a slow call, and is given back and granted again at once. With the longest call as the
	// lead, the next twenty jobs of an idle queue would come late.
	Usual bool

	known bool
	zero  time.Time // origin of the engine's instants
	base  time.Time // local time of zero, by the first answer
	at    time.Time // when the bounds were computed
	// The bounds of recent answers and of earlier ones: zero was at base + early or later, and at base + late or
	// earlier.
	recent, before bounds
	turned         time.Time // answers since then are recent

	lead   time.Duration
	told   time.Duration // uncertainty in the last request
	client string        // client of that request
	number uint64        // number of that request
	took   atomic.Int64  // longest since the last request, in ns
	trips  trips         // if Usual
	synced time.Time     // when Resync last asked for a call
	pause  time.Duration // until it asks for another, if no call is answered meanwhile
}

// Memory is the maximum time for which an answer counts.
const Memory = 2 * time.Second

// bounds are the earliest and the latest possible value.
type bounds struct{ early, late time.Duration }

var anything = bounds{math.MinInt64 / 2, math.MaxInt64 / 2}

func (b bounds) and(o bounds) bounds { return bounds{max(b.early, o.early), min(b.late, o.late)} }

func (b bounds) widened(by time.Duration) bounds { return bounds{b.early - by, b.late + by} }

func (b bounds) excludes(o bounds) bool { return o.late < b.early || o.early > b.late }

// Took records the time from a request until a granted job could start. The engine gets the longest recent one, and
// grants the next departures that far ahead.
func (c *Clock) Took(d time.Duration) {
	for was := c.took.Load(); int64(d) > was && !c.took.CompareAndSwap(was, int64(d)); was = c.took.Load() {
	}
}

// leads updates the lead, at an answer that long after the last one. A slow call is forgotten slowly, but within a
// second: a client that asks seldom must not grant by what was long ago. At first the lead is a guess: nobody knows how
// long the first grants take while all partitions ask at once and no spec is known, and the first answer says how long
// a connection takes.
func (c *Clock) leads(took, after time.Duration) {
	if c.Usual {
		c.lead = c.trips.lead(took, after, c.known)
		return
	}
	if !c.known {
		c.lead = queue.Horizon / 2
		return
	}
	took = min(max(took, time.Duration(c.took.Swap(0))), queue.Horizon) // the engine grants no further ahead
	part := min(1, max(after.Seconds(), 1./8))
	c.lead = max(took, c.lead-time.Duration(float64(c.lead-took)*part))
}

// Observe records that the engine's clock showed now between two local instants.
func (c *Clock) Observe(now, asked, answered time.Time) {
	took := answered.Sub(asked)
	c.leads(took, answered.Sub(c.at))
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

// bounds returns the intersection of all answers that count.
func (c *Clock) bounds() bounds { return c.recent.and(c.before) }

// drifted returns the maximum drift of the clocks over a duration.
func drifted(d time.Duration) time.Duration { return time.Duration(math.Ceil(float64(d) * drift)) }

// uncertainty returns how far apart the bounds are.
func (c *Clock) uncertainty() time.Duration {
	if !c.known {
		return 0
	}
	b := c.bounds()
	return b.late - b.early
}

// Window returns the local instants between which the engine's clock shows at, and the end of a lease that starts
// then.
func (c *Clock) Window(at time.Time, lease time.Duration) Window {
	since, b := at.Sub(c.zero), c.bounds()
	departs := c.base.Add(since + b.early)
	return Window{
		DepartsFrom: departs, DepartsBy: c.base.Add(since + b.late), LeaseEnd: departs.Add(lease),
		told: c.told,
	}
}

// Request adds what the engine should know of the client: its lead, its uncertainty, and the latest time that the
// engine's clock can show now. An uncertainty above queue.Horizon is sent as 0. Then Window.Latest allows no start
// after the slack, so only queues whose slack exceeds the uncertainty send jobs.
func (c *Clock) Request(r queue.ReserveRequest, now time.Time) queue.ReserveRequest {
	if c.known {
		r.Latest = c.latest(now)
	}
	r.Lead = max(0, c.lead-lateness)
	told := time.Duration(0)
	if u := c.uncertainty(); u > vague && u <= queue.Horizon {
		told = u
	}
	if r.Number == c.number && r.Client.ID == c.client { // the engine may use the first of repeated requests
		told = min(told, c.told)
	}
	r.Uncertainty, c.told, c.client, c.number = told, told, r.Client.ID, r.Number
	return r
}

// latest returns the latest time that the engine's clock can show.
func (c *Clock) latest(at time.Time) time.Time {
	return c.zero.Add(at.Sub(c.base) - c.bounds().early + drifted(at.Sub(c.at)))
}

// Resync reports whether to make a call without asking for jobs, to know the clock before jobs are granted: at first,
// and while the uncertainty is large and no other call has been answered for a while.
func (c *Clock) Resync(now time.Time) bool {
	switch {
	case !c.known:
	case c.uncertainty() <= vague:
		c.pause = 0
		return false
	case now.Sub(latestOf(c.synced, c.at)) < c.pause:
		return false
	default:
		c.pause = min(max(2*c.pause, shortestPause), longestPause)
	}
	c.synced = now
	return true
}
