package admission

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue/rules"
)

// Maximum numbers of waiting callers.
const (
	maxWaiting    = 4096
	maxWaitingKey = 1024
)

// waitlists has the waiting callers, in one list per key of a rule.
type waitlists struct {
	waiting atomic.Int64 // number of callers: without any, a check costs nothing

	mu   sync.Mutex
	keys map[waitKey]*waitlist
}

type waitKey struct{ rule, key string }

// waitlist has the callers that wait for one key, in order of arrival. Only the first asks the store.
type waitlist struct {
	key      waitKey
	interval time.Duration // as returned by interval
	waiters  []*waiter

	answer *rules.Taken  // last refusal of a first caller, or nil
	asker  *waiter       // the caller that got it
	at     time.Time     // time of the answer
	known  chan struct{} // closed once there is an answer
	again  chan struct{} // something was given back: ask again
}

// waiter is a waiting caller. Its fields do not change.
type waiter struct {
	all   *waitlists
	list  *waitlist
	cost  int64
	first chan struct{} // closed when it is first
}

func newWaitlists() *waitlists { return &waitlists{keys: map[waitKey]*waitlist{}} }

// join adds a caller to its list. Its error is ErrCrowded.
func (l *waitlists) join(rule string, t rules.Take, interval time.Duration) (*waiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := waitKey{rule, t.Key}
	one := l.keys[key]
	if l.waiting.Load() >= maxWaiting || one != nil && len(one.waiters) >= maxWaitingKey {
		return nil, ErrCrowded
	}
	if one == nil {
		one = &waitlist{key: key, interval: interval, known: make(chan struct{}), again: make(chan struct{}, 1)}
		l.keys[key] = one
	}
	w := &waiter{all: l, list: one, cost: max(1, t.Cost), first: make(chan struct{})}
	if one.waiters = append(one.waiters, w); len(one.waiters) == 1 {
		close(w.first)
	}
	l.waiting.Add(1)
	return w, nil
}

// leave removes a caller from its list.
func (l *waitlists) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.Add(-1)
	one := w.list
	at := slices.Index(one.waiters, w)
	one.waiters = slices.Delete(one.waiters, at, at+1)
	switch {
	case len(one.waiters) == 0:
		delete(l.keys, one.key)
	case at == 0:
		close(one.waiters[0].first)
	}
}

// behind returns refusals for takes that would overtake waiting callers: nil for each take that would not, and nil if
// there are none. Holders of a place of concurrency may renew it.
func (l *waitlists) behind(rule string, takes []rules.Take) (refusals []*rules.Taken) {
	if l.waiting.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, t := range takes {
		if t.Op != rules.TakeNow || t.Lease != "" {
			continue
		}
		if one := l.keys[waitKey{rule, t.Key}]; one != nil && one.answer != nil {
			if refusals == nil {
				refusals = make([]*rules.Taken, len(takes))
			}
			refusals[i] = one.refusal(len(one.waiters), max(1, t.Cost))
		}
	}
	return refusals
}

// wake makes the first caller of a list ask again.
func (l *waitlists) wake(rule, key string) {
	if l.waiting.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.keys[waitKey{rule, key}]; one != nil {
		select {
		case one.again <- struct{}{}:
		default:
		}
	}
}

// refusal returns the refusal for a caller with that many before it. It is the last answer of the store, with the time
// at which the take would pass if all callers before it stay and nothing else is taken.
func (one *waitlist) refusal(before int, cost int64) *rules.Taken {
	taken := *one.answer
	ahead := one.waiters[:before]
	if len(ahead) > 0 && ahead[0] == one.asker {
		ahead = ahead[1:] // the answer includes its take
	}
	for _, w := range ahead {
		cost += w.cost
	}
	taken.RetryAfter = max(leastAgain, time.Until(one.at)+taken.RetryAfter+time.Duration(cost)*one.interval)
	taken.Remaining = 0
	return &taken
}

// awaitFirst waits until the caller is first. It returns a refusal if that takes too long, or would.
func (w *waiter) awaitFirst(ctx context.Context, until time.Time) (*rules.Taken, error) {
	known := w.list.known
	over := time.NewTimer(time.Until(until))
	defer over.Stop()
	timeout := over.C
	for {
		select {
		case <-w.first:
			return nil, nil
		default:
		}
		select {
		case <-w.first:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout: // the first caller gets its answer soon
			timeout, known = nil, w.list.known
		case <-known:
			known = nil
			if refused := w.hopeless(until); refused != nil {
				return refused, nil
			}
		}
	}
}

// hopeless returns a refusal if the caller's time ends, or has ended, before the take would pass.
func (w *waiter) hopeless(until time.Time) *rules.Taken {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	before := slices.Index(w.list.waiters, w)
	if before == 0 {
		return nil
	}
	refused := w.list.refusal(before, w.cost)
	if left := time.Until(until); left > 0 && (w.list.interval == 0 || refused.RetryAfter <= left) {
		return nil
	}
	return refused
}

// refused records the answer to the first caller of the list.
func (w *waiter) refused(taken rules.Taken) {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	one := w.list
	if one.answer == nil {
		close(one.known)
	}
	one.answer, one.asker, one.at = &taken, w, time.Now()
}

// pause waits before the first caller asks again.
func (w *waiter) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-w.list.again:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
