package auth

import (
	"errors"
	"sync/atomic"
	"time"
)

type counter = atomic.Int64

// Accepted is the outcome, beside the codes, of requests whose sender is known.
const Accepted Code = "accepted"

func (a *Authority) count(err error) {
	at := len(codes)
	var r *Refusal
	if errors.As(err, &r) {
		at = r.Code.index()
	}
	a.counts[at].Add(1)
}

// Outcomes are what requests can be counted by: the codes, and Accepted.
func Outcomes() []Code { return append(Codes(), Accepted) }

// Requests is how many requests had an outcome.
func (a *Authority) Requests(outcome Code) int64 {
	if outcome == Accepted {
		return a.counts[len(codes)].Load()
	}
	return a.counts[outcome.index()].Load()
}

// Known is how many apps, tokens and subjects are known.
func (a *Authority) Known() int {
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	return a.replica.view.documents()
}

// Age is how long ago the store last said what has changed; since 1970 if it never has.
func (a *Authority) Age() time.Duration { return a.replica.age(time.Now()) }
