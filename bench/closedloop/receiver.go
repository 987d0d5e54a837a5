package closedloop

import "github.com/penstock/penstock/leaky"

// Limit returns how many requests a second a receiver accepts at an instant, counted from 0.
type Limit func(at leaky.Instant) float64

// Receiver accepts or refuses requests, which arrive in order of time.
type Receiver interface{ Take(at leaky.Instant) bool }

const second = leaky.Instant(1_000_000)

// Tokens returns a receiver with a token bucket of the given burst.
func Tokens(limit Limit, burst float64) Receiver {
	return &tokens{limit: limit, burst: burst, have: burst}
}

type tokens struct {
	limit       Limit
	burst, have float64
	last        leaky.Instant
}

func (r *tokens) Take(at leaky.Instant) bool {
	r.have = min(r.burst, r.have+r.limit(at)*float64(at-r.last)/1e6)
	r.last = at
	if r.have < 1 {
		return false
	}
	r.have--
	return true
}

// Seconds returns a receiver that counts the accepted requests in each second of the clock.
func Seconds(limit Limit) Receiver { return &seconds{limit: limit} }

type seconds struct {
	limit  Limit
	second leaky.Instant
	taken  int
}

func (r *seconds) Take(at leaky.Instant) bool {
	if s := at / second; s != r.second {
		r.second, r.taken = s, 0
	}
	if float64(r.taken+1) > r.limit(at) {
		return false
	}
	r.taken++
	return true
}

// Sliding returns a receiver that counts the accepted requests of the last second.
func Sliding(limit Limit) Receiver { return &sliding{limit: limit} }

type sliding struct {
	limit Limit
	taken []leaky.Instant
}

func (r *sliding) Take(at leaky.Instant) bool {
	for len(r.taken) > 0 && r.taken[0] <= at-second {
		r.taken = r.taken[1:]
	}
	if float64(len(r.taken)+1) > r.limit(at) {
		return false
	}
	r.taken = append(r.taken, at)
	return true
}
