package queuetest

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

var pairLanes = []string{"a", "b", "c", "d"}

// inSomeLane draws a job's lane, priority and schedule.
func (p *pair) inSomeLane(j *queue.Job) {
	if !p.lanes {
		return
	}
	j.Lane = rapid.SampledFrom(append([]string{"", ""}, pairLanes...)).Draw(p.T, "lane")
	j.Priority = rapid.SampledFrom([]int{0, 0, 0, 0, 1, 5, 9}).Draw(p.T, "priority")
	if in := rapid.SampledFrom([]int{
		-1, -1, -1, -1, -1, -1, 0, 1, 40, 100, 500, 2000, 30_000,
	}).Draw(p.T, "not before in ms"); in >= 0 {
		j.NotBefore = p.clock.Now().Time().Add(time.Duration(in) * time.Millisecond)
	}
	switch rapid.IntRange(0, 60).Draw(p.T, "oddity of lanes") {
	case 60:
		j.Lane = "\xff"
	case 59:
		j.Priority = 10
	case 58:
		j.NotBefore = p.clock.Now().Time().Add(2 * queue.MaxAhead) // however far the engines' clocks are ahead
	case 57:
		j.NotBefore = p.clock.Now().Time().Add(-time.Hour)
	}
}

// rules draws a spec's settings for lanes, jobs in flight and schedules.
func (p *pair) rules(s *queue.Spec) {
	s.MaxInFlight, s.MaxScheduled, s.Ordered, s.Lanes = 0, 0, false, queue.Lanes{}
	s.Weight = rapid.SampledFrom([]int64{0, 0, 1, 3, 1000}).Draw(p.T, "weight")
	if !p.lanes {
		return
	}
	s.MaxInFlight = rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 4}).Draw(p.T, "in flight")
	s.MaxScheduled = rapid.SampledFrom([]int64{0, 0, 0, 1, 3}).Draw(p.T, "scheduled")
	s.Ordered = rapid.IntRange(0, 4).Draw(p.T, "ordered") == 4
	s.Lanes.LaneRule = p.laneRule()
	if rapid.IntRange(0, 2).Draw(p.T, "override") == 2 {
		s.Lanes.Overrides = map[string]queue.LaneRule{
			rapid.SampledFrom(pairLanes).Draw(p.T, "override of"): p.laneRule(),
		}
	}
}

func (p *pair) laneRule() (r queue.LaneRule) {
	if rate := rapid.SampledFrom([]string{
		"", "", "3/s", "1/s", "100/s", "7/m", "1/h", "14/s",
	}).Draw(p.T, "lane rate"); rate != "" {
		r.Rate = laneRate(rate).Rate
		r.Burst = rapid.Int64Range(0, 3).Draw(p.T, "lane burst")
	}
	r.Capacity = rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 5}).Draw(p.T, "lane capacity")
	r.MaxBytes = unit.Bytes(rapid.SampledFrom([]int64{0, 0, 0, 1400, 2300}).Draw(p.T, "lane bytes"))
	r.MaxInFlight = rapid.SampledFrom([]int64{0, 0, 0, 1, 2}).Draw(p.T, "lane in flight")
	r.Limits = p.laneLimits()
	r.Hours = p.hours("lane hours")
	r.Weight = rapid.SampledFrom([]int64{0, 0, 1, 3, 10, 999}).Draw(p.T, "lane weight")
	return r
}

// putRules changes only these settings of a queue.
func (p *pair) putRules() {
	q := p.queueName()
	i, err := p.engines[0].Get(p.ctx, q)
	if err != nil || !p.lanes {
		return
	}
	p.rules(&i.Spec)
	p.putBoth(i.Spec, queue.AnyRevision)
}

// rulesOf and place format these settings, and a job's lane, priority and schedule, for the log.
func rulesOf(s queue.Spec) string {
	var limits []string
	for _, l := range s.Limits {
		limits = append(limits, l.String())
	}
	return fmt.Sprintf(
		"rules %v limits %v estimate %v ", s.Rules, limits, s.Estimate,
	) + fmt.Sprintf("weights %d %d in flight %d scheduled %d ordered %v lanes %v burst %d capacity %d bytes %d "+
		"in flight %d overrides %v",
		s.Weight, s.Lanes.Weight, s.MaxInFlight, s.MaxScheduled, s.Ordered,
		s.Lanes.Rate, s.Lanes.Burst, s.Lanes.Capacity, s.Lanes.MaxBytes, s.Lanes.MaxInFlight, s.Lanes.Overrides) +
		fmt.Sprintf(" limits %v", s.Lanes.Limits.List())
}

func place(j queue.Job) string {
	return fmt.Sprintf("lane %q priority %d not before %s", j.Lane, j.Priority, micro(j.NotBefore))
}

// hours draws hours, mostly none: a part of each hour.
func (p *pair) hours(label string) (h queue.Hours) {
	if rapid.IntRange(0, 3).Draw(p.T, label) > 0 {
		return h
	}
	from := rapid.IntRange(0, 2).Draw(p.T, "open from minute")
	to := rapid.SampledFrom([]int{50, 55, 59}).Draw(p.T, "open until minute")
	var spans []string
	for hour := range 24 {
		spans = append(spans, fmt.Sprintf("%02d:%02d-%02[1]d:%02[3]d", hour, from, to))
	}
	return queue.OpenHours{Open: queue.ListOf(spans...), Timezone: "Europe/Berlin"}.Hours()
}

// limits draws limits beside the rate of a queue.
func (p *pair) limits(s *queue.Spec) {
	s.Limits, s.Hours = nil, queue.Hours{}
	if !p.limited {
		return
	}
	s.Hours = p.hours("hours")
	for range rapid.SampledFrom([]int{0, 0, 1, 1, 2, 3}).Draw(p.T, "limits") {
		var l queue.Limit
		switch rapid.IntRange(0, 2).Draw(p.T, "kind of limit") {
		case 0:
			l.Rate = laneRate(rapid.SampledFrom([]string{"3/s", "14/s", "30/m", "1/s"}).Draw(p.T, "further pace")).Rate
			l.Burst = rapid.Int64Range(0, 3).Draw(p.T, "its burst")
		default:
			l.Quota.Max = rapid.Int64Range(1, 6).Draw(p.T, "quota")
			l.Quota.Per = rapid.SampledFrom([]string{"m", "m", "m", "m", "h", "d", "d", "d", "w", "mo"}).Draw(p.T, "per")
			if l.Quota.Per != "m" && l.Quota.Per != "h" {
				l.Timezone = rapid.SampledFrom([]string{"", "Europe/Berlin", "America/New_York"}).Draw(p.T, "zone")
			}
			l.Ramp = p.ramp(l.Quota)
		}
		s.Limits = append(s.Limits, l)
	}
}

// limitStates formats the used part of quotas. After a restart an embedded store may show more.
func limitStates(i queue.Info) string {
	var b strings.Builder
	for k, l := range i.Limits {
		if i.Spec.Limits[k].IsBudget() {
			fmt.Fprintf(&b, " from %d %d last %d wants %d", l.Bucket.TAT, l.Bucket.Rem, l.Bucket.Last, l.Bucket.LastCost)
		} else {
			fmt.Fprintf(&b, " %d until %d step %d", l.Window.Used, l.Window.Ends, l.Window.Step)
		}
	}
	return b.String()
}

// adapts draws whether the rate of a spec adapts, and its bounds, or learns.
func (p *pair) adapts(s *queue.Spec) {
	if s.Rate.Unlimited() || !rapid.Bool().Draw(p.T, "adapts") {
		return
	}
	if s.Burst < 10 && rapid.IntRange(0, 2).Draw(p.T, "learns") == 0 {
		s.Learn = "ietf"
		return
	}
	s.Adapt = queue.Adapt{Floor: s.Rate, Ceiling: s.Rate}
	if rapid.Bool().Draw(p.T, "floor below") {
		s.Adapt.Floor = laneRate(rapid.SampledFrom([]string{"1/744h", "1/h", "0.9/h"}).Draw(p.T, "floor")).Rate
	}
	if rapid.Bool().Draw(p.T, "ceiling above") {
		s.Adapt.Ceiling = laneRate(rapid.SampledFrom([]string{
			"1000000/s", "1001/s", "1000/s",
		}).Draw(p.T, "ceiling")).Rate
	}
}

// rateChanges formats the adaptive rate of an Info.
func rateChanges(i queue.Info) string {
	text := fmt.Sprint("rate ", i.Rate)
	for _, a := range i.RateChanges {
		text += fmt.Sprintf(" %s %s to %s %s %q", micro(a.At), a.From, a.To, a.Cause, a.Reason)
	}
	return text
}

// circuit draws a queue's circuit settings.
func (p *pair) circuit(s *queue.Spec) {
	s.Circuit.Failures = rapid.Int64Range(1, 3).Draw(p.T, "failures")
	s.Circuit.MinProbe = unit.Duration(rapid.SampledFrom([]int{1, 10, 100, 1000}).Draw(p.T,
		"probed in ms")) * unit.Duration(time.Millisecond)
	s.Circuit.MaxProbe = s.Circuit.MinProbe * unit.Duration(rapid.IntRange(1, 9).Draw(p.T, "longest"))
	slow := rapid.SampledFrom([]int{1, 5, 60}).Draw(p.T, "slow in s")
	s.Circuit.Slow = unit.Duration(slow) * unit.Duration(time.Second)
	s.Circuit.Off = rapid.IntRange(0, 3).Draw(p.T, "off") == 0
}

// stopText formats a queue's stop and circuit.
func stopText(i queue.Info) string {
	return fmt.Sprintf("stops until %s %s %q, circuit %d %s %v %q", micro(i.Stop.Until), i.Stop.Cause, i.Stop.Reason,
		i.Circuit.Failures, micro(i.Circuit.Opened), i.Circuit.Probe.D(),
		i.Circuit.Reason)
}
