package auth

import (
	"slices"
	"time"
)

// Accepted is the outcome of an authenticated request. The other outcomes are codes.
const Accepted Code = "accepted"

func (a *Authority) count(outcome Code) { a.counts[outcome.count()].Add(1) }

// count returns the index of an outcome's counter.
func (c Code) count() int {
	if c == Accepted {
		return len(codes)
	}
	return c.index()
}

// Outcomes returns all outcomes by which requests are counted: Accepted, and the codes of failed authentication.
func Outcomes() []Code {
	return append(slices.DeleteFunc(Codes(), func(c Code) bool { return c == Forbidden }), Accepted)
}

// Requests returns the number of requests with an outcome.
func (a *Authority) Requests(outcome Code) int64 { return a.counts[outcome.count()].Load() }

// Known returns the number of known apps, tokens and subjects.
func (a *Authority) Known() int {
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	return a.replica.view.documents()
}

// Age returns the time since the store last answered, or since 1970 if it never has.
func (a *Authority) Age() time.Duration { return a.replica.age(time.Now()) }
