package machine

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/status"
)

// Forecast returns when the jobs of a queue leave, assuming that no more jobs are appended, that deliveries succeed,
// that a down receiver answers its next probe, and that in-flight limits let out what they let out now. Errors: an
// *invalid.Error of ask.Spec.
func Forecast(l *queue.Lineup, ask queue.ForecastRequest) (queue.Forecast, error) {
	c, err := newForecaster(l, ask)
	if err != nil {
		return queue.Forecast{}, err
	}
	c.run()
	return c.forecast(), nil
}

// forecaster is the fluid of a Lineup.
type forecaster struct {
	fluid
	lineup   *queue.Lineup
	appended queue.ForecastAppend
	spec     *queue.Spec
	now      leaky.Instant
	cost     float64                             // mean cost of a waiting or appended job
	rules    map[queue.LaneDigest]queue.LaneRule // overrides
	poolOf   map[queue.LaneDigest]int
}

func newForecaster(l *queue.Lineup, ask queue.ForecastRequest) (*forecaster, error) {
	c := &forecaster{
		lineup: l, spec: &l.Spec, now: leaky.Instant(l.Now.UnixMicro()), appended: ask.Append, cost: l.MeanCost(ask.Append),
		rules: map[queue.LaneDigest]queue.LaneRule{}, poolOf: map[queue.LaneDigest]int{},
	}
	c.weight = float64(l.Spec.Share())
	c.drained, c.dry = -1, slices.Repeat([]float64{-1}, len(l.Lanes))
	q, err := shownQueue(&l.Info, c.now)
	if err != nil {
		return nil, err
	}
	if ask.Spec != nil {
		c.spec, c.weight = ask.Spec, float64(ask.Spec.Share())
		if err := c.spec.Pacer(queue.Horizon).Validate(); err != nil {
			return nil, invalid.Errorf("rate", "", "%v", err)
		}
		if q.paces, err = q.withSpec(ask.Spec, nil, c.now); err != nil {
			return nil, err
		}
	}
	for key, rule := range c.spec.Lanes.Overrides {
		c.rules[queue.DigestLane(key)] = rule
	}
	if err := c.addStations(q); err != nil {
		return nil, err
	}
	apart := map[queue.LaneDigest]bool{queue.DigestLane(ask.Append.Lane): ask.Append.Jobs > 0}
	for _, due := range l.Due {
		apart[due.Lane] = true
	}
	c.addLanes(apart)
	c.addDeferred()
	for _, due := range l.Due {
		c.inflows = append(c.inflows, inflow{
			at: max(0, due.At.Sub(l.Now).Seconds()), depth: float64(due.Cost),
			pool: c.pool(due.Lane, float64(due.Cost)/float64(due.Jobs)),
		})
	}
	c.append()
	slices.SortStableFunc(c.inflows, func(a, b inflow) int { return cmp.Compare(a.at, b.at) })
	return c, nil
}

// addStations adds the queue's paces, and those of its group.
func (c *forecaster) addStations(q *queueState) error {
	i := &c.lineup.Info
	switch {
	case i.Group.Children > 0: // the paces of a parent apply to the whole group
		g := c.station(&q.paces, "")
		c.pause(&g, i.Pause, "")
		c.group, c.own = &g, station{}
	case i.Parent != nil:
		p, err := shownQueue(i.Parent, c.now)
		if err != nil {
			return err
		}
		g := c.station(&p.paces, p.name)
		c.pause(&g, i.Parent.Pause, p.name)
		c.group, c.own = &g, c.station(&q.paces, "")
	default:
		c.own = c.station(&q.paces, "")
	}
	c.pause(&c.own, i.Pause, "")
	c.stop()
	c.limitInFlight()
	if c.group != nil {
		c.addSiblings()
	}
	return nil
}

// station returns paces as a station. of is the parent's name, if they are the parent's.
func (c *forecaster) station(p *paces, of string) station {
	hours := (*queue.Schedule)(nil)
	if p.hours != nil {
		hours = p.hours.schedule
	}
	s := station{single: c.cost, taps: []tap{c.tap(p.pacer, p.bucket, c.cost, verdict{by: cause.Rate, queue: of})}}
	if s.hours = c.hours(hours); s.hours != nil {
		s.shuts = verdict{by: cause.Hours, queue: of, reason: p.hours.rules.String()}
	}
	if of != "" {
		s.taps[0].by.by = cause.Parent
	}
	for l := range p.paced {
		by := s.taps[0].by
		by.reason = l.Rate.String()
		s.taps = append(s.taps, c.tap(l.pacer, l.bucket, c.cost, by))
	}
	for l := range p.budgets {
		by := s.taps[0].by
		by.reason = l.String()
		s.taps = append(s.taps, c.budgetTap(l, c.cost, by))
	}
	for l := range p.quotas {
		s.dams = append(s.dams, c.dam(l, of))
	}
	return s
}

// dam returns a quota as a dam.
func (c *forecaster) dam(l *limit, of string) dam {
	d := dam{limit: l, quota: l.quota, origin: c.now, cost: c.cost, by: verdict{by: cause.Quota, queue: of}}
	w, used := l.window, l.window.Used
	if l.Unit != "" {
		scaled := func(n int64) int64 { return int64(float64(n) * c.scale(l, c.cost)) }
		d.quota.Max, used = max(1, scaled(d.quota.Max)), scaled(used)
		d.quota.Ramp.Steps = slices.Clone(d.quota.Ramp.Steps)
		for i, n := range d.quota.Ramp.Steps {
			d.quota.Ramp.Steps[i] = max(1, scaled(n))
		}
	}
	if ends := l.quota.Calendar.End(c.now); w.Ends > ends { // jobs were let out ahead: the present window is over
		d.ahead, d.aheadUsed = w, used
		w.Ends = ends
		d.begin(w, d.quota.Most(w))
	} else if w.Ends < ends {
		d.begin(d.quota.At(w, c.now), 0)
	} else {
		d.begin(w, used)
	}
	return d
}

// scale returns how much cost a unit stands for in jobs of that cost. The costs of waiting jobs in units are not known,
// so each counts as the estimate.
func (c *forecaster) scale(l *limit, cost float64) float64 {
	expected, _ := c.lineup.Expected(c.spec, l.Unit)
	return cost / float64(max(1, expected))
}

// budgetTap returns a budget as a tap for jobs of that cost. A job leaves with credit for its cost, or with the whole
// burst.
func (c *forecaster) budgetTap(l *limit, cost float64, by verdict) tap {
	n, d := l.budget.Rate.Fraction()
	scale := c.scale(l, cost)
	t := tap{rate: float64(n) / float64(d) * 1e6 * scale, burst: max(float64(l.budget.Burst)*scale, cost), by: by}
	t.credit = t.burst - float64(l.budget.Used(&l.balance, c.now))*scale
	return t
}

// tap returns a pace as a tap for jobs of that cost.
func (c *forecaster) tap(p leaky.Pacer, b leaky.Bucket, cost float64, by verdict) tap {
	n, d := p.Rate.Fraction()
	if n == 0 {
		t := open(by.by)
		t.by = by
		return t
	}
	rate := float64(n) / float64(d) * 1e6
	t := tap{rate: rate, burst: float64(p.Burst) + cost - 1, by: by}
	t.credit = min(t.burst, cost-p.Free(b, c.now).Sub(c.now).Seconds()*rate)
	return t
}

// open returns a tap that does not limit anything.
func open(by cause.Cause) tap { return tap{rate: inf, burst: inf, credit: inf, by: verdict{by: by}} }

// pause notes a pause.
func (c *forecaster) pause(s *station, p queue.Pause, of string) {
	if !p.On() {
		return
	}
	until := inf
	if !p.Until.IsZero() {
		until = p.Until.Sub(c.lineup.Now).Seconds()
	}
	s.close(until, verdict{by: cause.Paused, queue: of, reason: p.Reason})
}

// stop notes why the queue lets nothing out beside a pause: its receiver, or that nobody asks for jobs.
func (c *forecaster) stop() {
	i, s := &c.lineup.Info, &c.own
	if i.Stop.On() && i.Stop.Cause == queue.StopNoTarget {
		s.close(inf, verdict{by: cause.NoTarget, reason: i.Stop.Reason})
		return
	}
	if !status.Attended(i) {
		s.close(inf, verdict{by: i.Spec.Cause()})
		return
	}
	if !i.Stop.On() && !i.Circuit.Open() {
		return
	}
	v := verdict{by: cause.Throttled, reason: i.Stop.Reason}
	if i.Circuit.Open() || i.Stop.Cause == queue.StopDown {
		v = verdict{by: cause.Down, reason: i.Circuit.Reason}
	}
	opens := 0.0
	if i.Stop.On() {
		opens = i.Stop.Until.Sub(i.Now).Seconds()
	}
	s.close(opens, v)
	s.rises = opens
}

// close closes a station until an instant, unless it is closed for longer.
func (s *station) close(until float64, why verdict) {
	if until > s.opens {
		s.opens, s.closed = until, why
	}
}

// limitInFlight adds a tap for the queue's limit of jobs in flight, if it is known how long jobs are in flight.
func (c *forecaster) limitInFlight() {
	if most := c.spec.MaxInFlight; most > 0 && c.lineup.Flight > 0 {
		c.own.taps = append(c.own.taps, c.places(most, most-c.lineup.Leased, c.cost, cause.MaxInFlight))
	}
}

// places returns a limit of jobs in flight as a tap. free is how many more jobs may be in flight now.
func (c *forecaster) places(most, free int64, cost float64, by cause.Cause) tap {
	return tap{
		rate: cost * float64(most) / c.lineup.Flight.Seconds(), burst: cost * float64(most),
		credit: cost * float64(min(most, max(0, free))), by: verdict{by: by},
	}
}

func (c *forecaster) addSiblings() {
	head := &c.lineup.Info
	if head.Parent != nil {
		head = head.Parent
	}
	members, waiting, weight := head.Group.Members, head.Group.Waiting, head.Group.Weight
	if c.lineup.Waiting > 0 && !c.lineup.Info.Spec.Pull { // a group does not count the jobs of pull children
		members, waiting, weight = members-1, waiting-c.lineup.Waiting, weight-c.lineup.Spec.Share()
	}
	for _, s := range c.lineup.Siblings {
		if s.Waiting == 0 {
			continue
		}
		cost := float64(s.Cost) / float64(s.Waiting)
		p := leaky.Pacer{Rate: s.Rate, Burst: s.Burst, Horizon: queue.Horizon}
		one := pool{tap: c.tap(p, s.Bucket, cost, verdict{}), jobCost: cost, weight: float64(max(1, s.Weight))}
		one.pour(float64(s.Cost))
		c.siblings = append(c.siblings, one)
		members, waiting, weight = members-1, waiting-s.Waiting, weight-s.Weight
	}
	if len(c.lineup.Siblings) == queue.MaxSiblings && members > 0 && waiting > 0 {
		rest := pool{tap: open(cause.Rate), jobCost: 1, weight: max(1, float64(weight)/float64(members))}
		rest.add(laneEnd{float64(waiting) / float64(members), float64(members), -1})
		c.siblings = append(c.siblings, rest)
	}
}

// addDeferred adds the jobs on the overflow. Their lanes are not known.
func (c *forecaster) addDeferred() {
	i := &c.lineup.Info
	if i.Deferred == 0 {
		return
	}
	cost := float64(max(i.DeferredCost, i.Deferred))
	c.ensureOverflow(cost / float64(i.Deferred)).pour(cost)
}

// ensureOverflow returns the overflow.
func (c *forecaster) ensureOverflow(jobCost float64) *pool {
	if c.overflow == nil {
		c.overflow = &pool{tap: open(cause.Deferred), jobCost: jobCost}
		s, _ := c.spec.Deferred.Schedule() // the spec is valid
		c.overflow.hours, c.overflow.shuts = c.hours(s), verdict{by: cause.DeferredHours}
	}
	return c.overflow
}

// append adds jobs that are appended now, and marks the first and the last of them.
func (c *forecaster) append() {
	a := c.appended
	cost := float64(max(1, a.Cost))
	add := func(p *pool, at int, jobs int64) {
		if jobs == 0 {
			return
		}
		before := p.depth() // as taps have it, a job departs when the mean cost of one more has passed
		if p.rate < inf {
			before += p.jobCost
		} else {
			before += c.cost
		}
		p.pour(float64(jobs) * cost)
		for _, left := range []float64{before, before + float64(jobs-1)*cost} {
			c.marks = append(c.marks, mark{pool: at, left: min(left, p.depth())})
		}
	}
	if a.Jobs > 0 {
		n := c.pool(queue.DigestLane(a.Lane), cost)
		add(&c.pools[n], n, a.Jobs)
	}
	if a.Deferred > 0 {
		add(c.ensureOverflow(cost), -1, a.Deferred)
	}
}

// longest is how many seconds a forecast reaches: some thousand years.
const longest = 1e11

// forecast returns the result of a run.
func (c *forecaster) forecast() queue.Forecast {
	at := func(t float64) time.Time {
		return (c.now + leaky.Instant(math.Ceil(min(t, longest)*1e6-0.01))).Time()
	}
	f := queue.Forecast{
		Exact: !c.rough && c.isExact(), Estimated: c.lineup.Info.Lanes > queue.MaxLineupLanes || c.rough,
		Lanes: make([]time.Time, len(c.lineup.Lanes)),
	}
	curve := simplified(c.bends, queue.MaxBends)
	for n, b := range curve {
		if b.by == (verdict{}) && n+1 < len(curve) { // jobs leave at once
			b.by, b.rate = curve[n+1].by, curve[n+1].rate
		}
		bend := queue.Bend{
			At: at(b.t), Remaining: b.left, Rate: b.rate, By: b.by.by, Queue: b.by.queue, Reason: b.by.reason,
			Drained: b.drained,
		}
		if b.by.until > 0 {
			bend.Until = at(b.by.until)
		}
		f.Bends = append(f.Bends, bend)
	}
	if last := curve[len(curve)-1]; last.left <= tiny {
		f.Finish = at(last.t)
	}
	for n, t := range c.dry {
		if t >= 0 {
			f.Lanes[n] = at(t)
		}
	}
	if n := len(c.marks); n > 0 {
		first, last := c.marks[0], c.marks[n-1]
		if first.passed {
			f.First = at(first.at)
		}
		if last.passed {
			f.Last = at(last.at)
		}
	}
	return f
}

// isExact reports whether arithmetic alone decides when jobs leave.
func (c *forecaster) isExact() bool {
	i, a := &c.lineup.Info, c.appended
	return c.cost <= 1 && a.Deferred == 0 && (a.Jobs == 0 || a.Lane == "") && i.Lanes <= 1 &&
		(len(c.lineup.Lanes) == 0 || c.lineup.Lanes[0].Digest == queue.LaneDigest{}) &&
		i.Size() == i.Waiting && i.Deferred == 0 && c.group == nil && len(c.spec.Limits) == 0 &&
		!c.spec.Hours.On() && c.spec.MaxInFlight == 0 && !c.spec.Ordered && !c.spec.Adapts() && !c.spec.Pull &&
		c.own.opens == 0 && !i.Circuit.Open()
}
