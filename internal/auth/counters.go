package auth

import (
	"slices"
	"time"
)

// Accepted is the outcome, beside the codes, of requests whose sender is known.
const Accepted Code = "accepted"

func (a *Authority) count(outcome Code) { a.counts[outcome.count()].Add(1) }

// count is where an outcome is counted.
func (c Code) count() int {
	if c == Accepted {
		return len(codes)
	}
	return c.index()
}

// Outcomes are what requests are counted by: Accepted, and the codes by which somebody is not let in.
func Outcomes() []Code {
	return append(slices.DeleteFunc(Codes(), func(c Code) bool { return c == Forbidden }), Accepted)
}

// Requests is how many requests had an outcome.
func (a *Authority) Requests(outcome Code) int64 { return a.counts[outcome.count()].Load() }

// Known is how many apps, tokens and subjects are known.
func (a *Authority) Known() int {
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	return a.replica.view.documents()
}

// Age is how long ago the store last said what has changed; since 1970 if it never has.
func (a *Authority) Age() time.Duration { return a.replica.age(time.Now()) }
