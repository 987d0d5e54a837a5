package admission

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// decideAway answers in place of the store, by the policy of the rule as last seen.
func (a *Admission) decideAway(r *knownRule, takes []rules.Take) []rules.Taken {
	a.outages.logPolicy(r.Name, r.Away)
	taken := make([]rules.Taken, len(takes))
	allowed, refused := 0, 0
	for i, t := range takes {
		taken[i] = a.decideOneAway(r, t)
		switch {
		case taken[i].Err != nil || t.Op > rules.TakePeek:
		case taken[i].Allowed || taken[i].Shadow:
			allowed++
		default:
			refused++
		}
	}
	a.o.Observer.Away(r.Name, r.Away, allowed, refused)
	return taken
}

func (a *Admission) decideOneAway(r *knownRule, t rules.Take) rules.Taken {
	bound := r.Of(t.Key)
	l, err := bound.Limiter(r.Algorithm)
	if err != nil {
		return rules.Taken{Err: err}
	}
	ask, err := r.Ask(t, l)
	if err != nil {
		return rules.Taken{Err: err}
	}
	if t.Op == rules.TakeCorrect { // the store knows the take; a correction may be repeated
		return rules.Taken{Err: fmt.Errorf("%w: repeat the correction later", queue.ErrUnavailable)}
	}
	answer := rules.Taken{Decision: leaky.Decision{Limit: l.Limit()}, Shadow: r.Action == rules.Shadow, Away: r.Away}
	switch {
	case r.Away == rules.AwayOpen:
		answer.Allowed, answer.Remaining, answer.ResetAfter = true, l.Limit(), bound.TTL.D()
	case r.Away == rules.AwayShare && a.processes.Load() > 0: // otherwise the number of processes is unknown
		answer.Decision = a.shares.decide(&r.Rule, t, ask, int(a.processes.Load()))
	default:
		answer.RetryAfter = retryAway
	}
	if answer.Allowed && t.Op == rules.TakeNow && r.Unit == "" { // else it cannot be corrected
		answer.Lease = ask.Lease
	}
	return answer
}

// monotonic returns an instant that never runs back, close to the wall clock.
func monotonic(begun time.Time) leaky.Instant {
	return leaky.Instant(begun.UnixMicro() + time.Since(begun).Microseconds())
}

// refundShare gives back a take that was allowed without the store.
func (a *Admission) refundShare(r *rules.Rule, t rules.Take) {
	if r.Away == rules.AwayShare {
		a.shares.decide(r, t, leaky.Ask{Cost: t.Cost, Lease: t.Lease}, max(1, int(a.processes.Load())))
	}
}
