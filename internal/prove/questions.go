package prove

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/rules"
)

const (
	// unanswered is how long a caller waits for an answer before it asks another ingress. It is longer than a working
	// ingress ever takes, and shorter than a pause of an ingress.
	unanswered = 2 * time.Second
	// hangUp is n if a caller hangs up on every nth question, without waiting for the answer.
	hangUp = 20
)

// questions is the load of a run of rules: callers that ask, and record the answers.
type questions struct {
	rules   []asked
	keys    int
	callers int
	turn    time.Duration // in each turn, every caller asks once
	doors   []*client.Client
	begun   time.Time

	mu       sync.Mutex
	accounts []keyAccount // the keys of one rule after another
}

// keyAccount records the answers about one key under one rule.
type keyAccount struct {
	// Answers by kind. Unknown takes may have been allowed; undecided ones changed nothing.
	allowed, refused, unknown, undecided int64
	passed                               []law.Passed
}

func newQuestions(o *RulesOptions, list []asked) (*questions, error) {
	n := len(list) * o.Keys
	perSecond := pressure * o.Rate.PerSecond() * float64(n)
	q := &questions{
		rules: list, keys: o.Keys, callers: o.Callers, turn: time.Duration(
			float64(o.Callers) / perSecond * float64(time.Second),
		),
		accounts: make([]keyAccount, n),
	}
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.Callers}}
	for _, url := range o.URLs {
		door, err := client.New(url, hc)
		if err != nil {
			return nil, err
		}
		q.doors = append(q.doors, door)
	}
	return q, nil
}

func (q *questions) now() time.Duration { return time.Since(q.begun) }

// count returns the number of takes that were or may have been decided, and the number allowed.
func (q *questions) count() (asked, allowed int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.accounts {
		a := &q.accounts[i]
		asked += a.allowed + a.refused + a.unknown
		allowed += a.allowed
	}
	return asked, allowed
}

// run asks until ctx ends.
func (q *questions) run(ctx context.Context) error {
	var all sync.WaitGroup
	failed := make(chan error, q.callers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range q.callers {
		all.Go(func() {
			if err := q.caller(ctx, i); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// caller asks one ingress as long as it answers, and then another. It does not make up for missed turns.
func (q *questions) caller(ctx context.Context, me int) error {
	door := me
	for n, turn := 1, int64(0); ; n++ {
		turn = max(turn+1, int64(q.now()/q.turn))
		if pause(ctx, time.Duration(turn)*q.turn-q.now()) != nil {
			return nil
		}
		at := q.chosen(turn, me)
		cost := min(1+int64(me+n)%2, q.rules[at/q.keys].law.By.Limit())
		answered, err := q.ask(ctx, q.doors[door%len(q.doors)], at, cost, leaves(n, me))
		if err != nil {
			return fmt.Errorf("ask the rule %s: %w", q.rules[at/q.keys].rule.Name, err)
		}
		if !answered {
			door++
		}
	}
}

// chosen returns the key that a caller asks in a turn. In every second turn all callers ask the same key, so that they
// compete. In the others each asks a different key, so that no key is left alone for long. The choice is random, or
// callers that are late every second turn would skip some keys.
func (q *questions) chosen(turn int64, caller int) int {
	if turn%2 == 0 {
		caller = 0
	}
	return rand.New(rand.NewPCG(uint64(turn), uint64(caller))).IntN(len(q.accounts))
}

// leaves reports whether a caller hangs up on its nth question. Only a few callers do so at a time. Otherwise, on a
// fast machine, all would hang up in the same turn on the same key, and in a short run some rules would see no caller
// hang up.
func leaves(n, caller int) bool { return (n+caller/2)%hangUp == 0 }

// ask asks once. If told to hang up, it does so as soon as the question was sent. An error means that the question was
// invalid.
func (q *questions) ask(
	ctx context.Context, door *client.Client, at int, cost int64, hangUp bool,
) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unanswered) // a sent question waits for its answer
	defer cancel()
	if hangUp {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { cancel() },
		})
	}
	begun := q.now()
	rule, take := &q.rules[at/q.keys].rule, wire.Take{Key: fmt.Sprintf("key-%d", at%q.keys+1), Cost: cost}
	if rule.Unit != "" {
		take.Cost, take.Costs = 0, map[string]int64{rule.Unit: cost}
	}
	said, err := door.Take(ctx, rule.Name, rules.TakeNow, take)
	ended := q.now()

	q.mu.Lock()
	defer q.mu.Unlock()
	a := &q.accounts[at]
	switch {
	case err == nil && said.Allowed:
		a.allowed++
		a.passed = append(a.passed, law.Passed{Asked: begun, Answered: ended, Cost: cost})
	case err == nil:
		a.refused++
	case untouched(err):
		a.undecided++
		return false, nil
	case hangUp || errors.Is(err, context.Canceled) || transient(err) == nil:
		a.unknown++
		return hangUp, nil
	default:
		return false, err
	}
	return true, nil
}

// untouched reports whether a failed question changed nothing.
func untouched(err error) bool {
	var dial *net.OpError
	var refused *client.Problem
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return true
	case errors.As(err, &refused):
		return refused.Reason == "unavailable" || refused.Reason == "overloaded" || refused.Reason == "stopping"
	}
	return false
}
