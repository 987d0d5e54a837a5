package queuetest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue"
)

// ramp draws whether a quota grows, and how.
func (p *pair) ramp(quota queue.Quota) (r queue.Ramp) {
	if rapid.IntRange(0, 3).Draw(p.T, "ramp") == 0 {
		return r
	}
	if rapid.IntRange(0, 2).Draw(p.T, "factor") == 0 {
		r.Factor = rapid.SampledFrom([]float64{2, 2.5, 3.125}).Draw(p.T, "factor of ramp")
		r.Until = quota.Max + rapid.Int64Range(1, 100).Draw(p.T, "until")
	} else {
		steps := []int64{quota.Max}
		for range rapid.IntRange(1, 5).Draw(p.T, "steps") {
			steps = append(steps, steps[len(steps)-1]+rapid.Int64Range(1, 4).Draw(p.T, "more"))
		}
		r.Steps = queue.StepsOf(steps...)
	}
	if rapid.Bool().Draw(p.T, "hold") {
		r.Idle = queue.RampHold
	}
	dates := []string{"2026-08-30", "2026-09-01", "2026-09-02", "2026-09-03", "2026-11-30", "2019-02-28"}
	if r.Idle == queue.RampHold {
		dates = append(dates, "", "", "", "")
	}
	r.From = rapid.SampledFrom(dates).Draw(p.T, "from")
	return r
}

// tomorrow lets the time pass until a day begins in UTC or in Berlin, unless jobs are deferred.
func (p *pair) tomorrow() {
	if !p.limited || p.ahead != 0 || p.patience() < time.Hour {
		return
	}
	p.kept()
	p.latest = time.Time{}
	for range 2 { // until no client vouches any more, see forwards
		p.clock.Advance(3*time.Second + time.Microsecond)
		p.info("g.keep")
	}
	now := p.clock.Now().Time().UTC()
	hour := rapid.SampledFrom([]int{22, 24}).Draw(p.T, "hour")
	days := rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(p.T, "days later")
	at := time.Date(now.Year(), now.Month(), now.Day()+days, hour, 0, 0, 0, time.UTC)
	off := rapid.SampledFrom([]int64{-40_000, -1, 0, 20_000, 1_000_000}).Draw(p.T, "us off")
	if at = at.Add(time.Duration(off) * time.Microsecond); !at.After(now) {
		at = at.Add(24 * time.Hour)
	}
	p.clock.Set(instantOf(at))
	p.sweep() // renews calendars and hours
	p.reserve()
}
