package admission

import (
	"sync"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

const (
	// maxShares is the maximum number of keys counted here. Further keys are refused: forgetting a key would let it
	// start anew.
	maxShares = 100_000
	// sweepAtOnce bounds how many keys are looked at in one call.
	sweepAtOnce = 1000
)

// shares counts while the store cannot: each of n processes on its own, under an n-th of each rule.
type shares struct {
	begun time.Time

	mu   sync.Mutex
	keys map[shareKey]*share
}

type shareKey struct{ rule, key string }

// share is the tally of one key.
type share struct {
	limiter leaky.Limiter
	tally   leaky.Tally
}

func newShares() *shares { return &shares{begun: time.Now(), keys: map[shareKey]*share{}} }

// decide answers a take as one of n processes.
func (s *shares) decide(r *rules.Rule, t rules.Take, ask leaky.Ask, n int) leaky.Decision {
	l, err := shareOf(r.Of(t.Key), n).Limiter(r.Algorithm)
	if err != nil {
		return leaky.Decision{RetryAfter: retryAway}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, key := monotonic(s.begun), shareKey{r.Name, t.Key}
	if t.Op == rules.TakeAnew {
		delete(s.keys, key)
		return l.Fresh().Peek(now, leaky.Ask{Lease: ask.Lease})
	}
	one := s.keys[key]
	if one == nil {
		one = &share{l, l.Fresh()}
	}
	one.useLimiter(l)
	var d leaky.Decision
	switch t.Op {
	case rules.TakePeek:
		d = one.tally.Peek(now, ask)
	case rules.TakeBack:
		d = one.tally.Refund(now, ask)
	default:
		if s.keys[key] == nil && !s.room(now) {
			return leaky.Decision{Limit: l.Limit(), RetryAfter: retryAway}
		}
		s.keys[key] = one
		d = one.tally.Take(now, ask)
	}
	if !d.Allowed && d.RetryAfter == 0 { // costs more than a share allows; the store may be back by then
		d.RetryAfter = retryAway
	}
	return d
}

// useLimiter changes the limiter. Earlier takes still count.
func (s *share) useLimiter(l leaky.Limiter) {
	if s.limiter == l {
		return
	}
	tally := l.Fresh()
	if s.limiter.Algorithm() == l.Algorithm() {
		state, _ := s.tally.AppendBinary(nil) // its error is always nil
		if t, err := l.Restore(state); err == nil {
			tally = t
		}
	}
	s.limiter, s.tally = l, tally
}

// room makes room for one more key, and reports whether there is any. mu is held.
func (s *shares) room(now leaky.Instant) bool {
	if len(s.keys) < maxShares {
		return true
	}
	s.forget(now)
	return len(s.keys) < maxShares
}

// forget drops some of the keys without takes. mu is held.
func (s *shares) forget(now leaky.Instant) {
	looked := 0
	for key, one := range s.keys {
		if looked++; looked > sweepAtOnce {
			return
		}
		if one.tally.Expires(now) <= now {
			delete(s.keys, key)
		}
	}
}

// sweep calls forget.
func (s *shares) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(monotonic(s.begun))
}

// shareOf returns the bound of one of n processes: an n-th of the rate and of the limit, rounded down, but at least 1.
// If an n-th is less than 1, it is 1 in a longer period. So in the long run n processes together allow no more than
// the bound does, and at once no more than the greater of its limit and n.
func shareOf(b rules.Bound, n int) rules.Bound {
	k := int64(n)
	switch {
	case !b.Rate.Unlimited():
		b.Rate, b.Burst = b.Rate.Share(k), max(1, b.Burst/k)
	case b.TTL > 0:
		b.Limit = max(1, b.Limit/k)
	case b.Limit == 0:
		b.Period = stretched(b.Period, k, leaky.MaxInterval)
	default:
		if b.Limit < k {
			b.Period, b.Resolution = stretched(b.Period, (k+b.Limit-1)/b.Limit, leaky.MaxPeriod), 0
		}
		b.Limit = max(1, b.Limit/k)
	}
	return b
}

// stretched returns d x k, at most most.
func stretched(d unit.Duration, k int64, most time.Duration) unit.Duration {
	if int64(d.D()) > int64(most)/k {
		return unit.Duration(most)
	}
	return d * unit.Duration(k)
}
