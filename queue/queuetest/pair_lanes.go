package queuetest

import (
	"fmt"
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
		if l.Paced() {
			limits = append(limits, fmt.Sprintf("%s burst %d", l.Rate, l.Burst))
		} else {
			limits = append(limits, l.Quota.String()+l.Timezone)
		}
	}
	return fmt.Sprintf(
		"rules %v limits %v ", s.Rules, limits,
	) + fmt.Sprintf("in flight %d scheduled %d ordered %v lanes %v burst %d capacity %d bytes %d in flight %d "+
		"overrides %v",
		s.MaxInFlight, s.MaxScheduled, s.Ordered,
		s.Lanes.Rate, s.Lanes.Burst, s.Lanes.Capacity, s.Lanes.MaxBytes, s.Lanes.MaxInFlight, s.Lanes.Overrides)
}

func place(j queue.Job) string {
	return fmt.Sprintf("lane %q priority %d not before %s", j.Lane, j.Priority, micro(j.NotBefore))
}
