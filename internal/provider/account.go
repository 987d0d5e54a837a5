package provider

import (
	"net/http"
	"time"
)

// account is the budgets and the history of an API key. The Simulator's mutex guards it.
type account struct {
	requests, tokens meter // tokens is nil without a limit
	limits           [2]Limit

	calls, throttled  int64
	charged, produced int64 // requests and tokens
	first, last       time.Time
	law               law
	mostCalls         most
	mostTokens        most
}

func newAccount(o *Options) *account {
	a := &account{
		limits: [2]Limit{o.Requests, o.Tokens},
		law:    law{interval: o.Requests.interval()}, mostCalls: most{window: o.Requests.Per},
		mostTokens: most{window: time.Minute},
	}
	if o.Provider == Plain {
		a.requests = &window{limit: o.Requests}
		return a
	}
	size := o.Burst
	if size == 0 {
		size = o.Requests.N
	}
	a.requests = newBucket(o.Requests, size)
	if o.Tokens.N != 0 {
		a.tokens, a.mostTokens.window = newBucket(o.Tokens, o.Tokens.N), o.Tokens.Per
	}
	return a
}

// admit charges a request, or returns why it is refused and how long the caller has to wait.
func (a *account) admit(now time.Time) (*problem, time.Duration) {
	a.calls++
	if a.first.IsZero() {
		a.first = now
	}
	a.last = now
	a.law.arrived(now)
	if !enough(a.requests, now, 1) {
		a.throttled++
		return &problem{http.StatusTooManyRequests, requestsUsedUp, a.limits[0].String()}, a.requests.wait(now, 1)
	}
	if a.tokens != nil && !enough(a.tokens, now, 1) {
		a.throttled++
		return &problem{http.StatusTooManyRequests, tokensUsedUp, a.limits[1].String()}, a.tokens.wait(now, 1)
	}
	a.requests.charge(now, 1)
	a.charged++
	a.mostCalls.add(now, 1)
	return nil, 0
}

// produce charges tokens.
func (a *account) produce(now time.Time, n int64) {
	a.produced += n
	a.mostTokens.add(now, n)
	if a.tokens != nil {
		a.tokens.charge(now, n)
	}
}

// reading is what a caller is told about a budget.
type reading struct {
	limit Limit
	left  int64
	reset time.Duration // until the whole budget is left
}

// readings are the budgets of an account at an instant. tokens is nil without a limit.
type readings struct {
	now      time.Time
	requests reading
	tokens   *reading
}

func (a *account) read(now time.Time) readings {
	r := readings{now: now, requests: reading{a.limits[0], whole(a.requests.left(now)), a.requests.reset(now)}}
	if a.tokens != nil {
		r.tokens = &reading{a.limits[1], whole(a.tokens.left(now)), a.tokens.reset(now)}
	}
	return r
}
