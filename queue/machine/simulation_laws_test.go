package machine

import (
	"time"

	window "github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// started notes that a drainer started a job.
func (s *simulation) started(q *simQueue, cost int64) {
	at, late := time.Duration(s.at)*time.Microsecond, time.Duration(s.jumped)*time.Microsecond
	for ; q != nil; q = q.parent {
		if q.maxCost = max(q.maxCost, cost); s.at < q.since {
			continue
		}
		q.starts = append(q.starts, law.Start{At: at, Cost: cost})
		if (q.spec.Limits != nil || q.spec.Hours.On()) && s.at >= q.windowsSince {
			q.metered = append(q.metered, law.Start{At: at + late, Cost: cost})
		}
	}
}

// simTokenUse is what a start used of tokens.
type simTokenUse struct {
	lane   string
	at     time.Duration
	tokens int64
}

// startedWith notes what a start is charged of tokens. A lower use replaces it later.
func (s *simulation) startedWith(q *simQueue, lane string, tokens int64) *simTokenUse {
	u := &simTokenUse{lane: lane, at: time.Duration(s.at) * time.Microsecond, tokens: tokens}
	if s.at >= q.since {
		q.tokens = append(q.tokens, u)
	}
	return u
}

// judgeTokens checks what starts used of tokens, in all lanes together and in each one.
func (s *simulation) judgeTokens(q *simQueue) {
	var all []law.Start
	of := map[string][]law.Start{}
	for _, u := range q.tokens {
		if u.tokens > 0 {
			start := law.Start{At: u.at, Cost: u.tokens}
			all, of[u.lane] = append(all, start), append(of[u.lane], start)
		}
	}
	s.judgeUse(q, all, q.spec.Limits)
	for _, lane := range simLanes {
		s.judgeUse(q, of[lane], q.spec.Lanes.Limits.List())
	}
}

// judgeUse checks the budgets among limits. The last start in a window may cost more than the burst.
func (s *simulation) judgeUse(q *simQueue, used []law.Start, limits []queue.Limit) {
	most := int64(0)
	for _, u := range used {
		most = max(most, u.Cost)
	}
	for _, l := range limits {
		if !l.IsBudget() {
			continue
		}
		beyond := 1 + max(0, most-l.Burst)
		if v := (law.Law{Rate: l.Rate, Burst: l.Burst, MaxCost: beyond, Slack: simSlack}).Judge(used); !v.Held {
			s.fail("%s by %s: %d used in %v, %d may", q.spec.Name, l.String(), v.Worst.Starts, v.Worst.Width, v.Worst.Allowed)
		}
	}
}

// newSegments judges all starts so far. The law differs for a window in which a rate changed or the clock jumped: a new
// trace begins when all earlier departures have passed, and every client has noticed the jump.
func (s *simulation) newSegments(jumped bool) {
	s.judgeStarts()
	late := time.Duration(0)
	for _, d := range s.drainers {
		if d.clock != nil {
			late = max(late, d.clock.Request(queue.ReserveRequest{}, d.at.Time()).Uncertainty)
		}
	}
	since := s.at.Add(queue.Horizon + simSlack + late)
	if jumped {
		since = since.Add(window.Memory)
	}
	for _, q := range s.queues {
		q.starts, q.metered, q.tokens, q.since = q.starts[:0], q.metered[:0], nil, since
	}
}

// newWindows judges only quotas: the wall clock, by which they count, jumped, but the engine's did not.
func (s *simulation) newWindows() {
	s.judgeQuotas()
	for _, q := range s.queues {
		q.windowsSince = s.at.Add(queue.Horizon + simSlack + window.Memory)
	}
}

// judgeStarts checks the starts against the window law.
func (s *simulation) judgeStarts() {
	for _, q := range s.queues {
		s.judge(q, q.spec.Rate, q.spec.Burst)
		s.judgeTokens(q)
		for _, l := range q.spec.Limits {
			if l.Paced() {
				s.judge(q, l.Rate, l.Burst)
			}
		}
	}
	s.judgeQuotas()
}

func (s *simulation) judge(q *simQueue, r leaky.Rate, burst int64) {
	v := law.Law{Rate: r, Burst: burst, MaxCost: q.maxCost, Slack: simSlack}.Judge(q.starts)
	if !v.Held {
		s.fail("%s at %v: %d started in %v, %d may", q.spec.Name, r, v.Worst.Starts, v.Worst.Width, v.Worst.Allowed)
	}
}

// judgeQuotas checks the starts against quotas per minute and hours, and begins new traces: from now on they may count
// by another clock.
func (s *simulation) judgeQuotas() {
	for _, q := range s.queues {
		s.judgeHours(q)
		for _, of := range q.spec.Limits {
			if !of.HasQuota() || of.Counts() != "" || of.Ramp.On() || len(q.metered) == 0 {
				continue
			}
			l := law.Quota{Max: of.Quota.Max, Late: simSlack}
			from, to := q.metered[0].At, q.metered[len(q.metered)-1].At
			for end := from.Truncate(time.Minute) + time.Minute; end <= to; end += time.Minute {
				l.Ends = append(l.Ends, end)
			}
			if v := l.Judge(q.metered); !v.Held {
				s.fail("%s at %v: %d started in %v, %d may", q.spec.Name, of.Quota, v.Worst.Starts, v.Worst.Width,
					v.Worst.Allowed)
			}
		}
		q.metered = q.metered[:0]
	}
}

// judgeHours checks that starts are within the hours, or late for a departure in them.
func (s *simulation) judgeHours(q *simQueue) {
	schedule, err := q.spec.Hours.Schedule("hours")
	if schedule == nil || err != nil || len(q.metered) == 0 {
		return
	}
	for _, v := range q.metered {
		at := leaky.Instant(v.At / time.Microsecond)
		open, _ := schedule.Calendar(at.Time())
		if next := open.Next(at.Add(-simSlack)); next > at {
			s.fail("%s: one started at %v, outside the hours", q.spec.Name, at.Time())
		}
	}
}
