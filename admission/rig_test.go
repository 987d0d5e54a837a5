package admission

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// store is an Engine in memory whose answers a test decides about.
type store struct {
	queue.Rules // the methods that are not here are not asked

	mu      sync.Mutex
	rules   map[string]rules.Rule
	queues  map[string][]string // their rules
	tallies map[string]*share
	among   int
	err     error // what all are answered
	silent  bool  // nobody is answered
	calls   map[string]int
}

func newStore(asked ...rules.Rule) *store {
	s := &store{
		rules: map[string]rules.Rule{}, queues: map[string][]string{}, tallies: map[string]*share{}, calls: map[string]int{},
		among: 1,
	}
	for _, r := range asked {
		s.put(r)
	}
	return s
}

func (s *store) put(r rules.Rule) {
	r.Normalize()
	if err := r.Validate(); err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules[r.Name] = r
}

func (s *store) drop(rule string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rules, rule)
}

// fail has all calls fail, nil none.
func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// mute blocks every caller until its context ends.
func (s *store) mute(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

func (s *store) called(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[what]
}

// answer is called with mu held by what follows, if it returns nil.
func (s *store) answer(ctx context.Context, what string) error {
	s.mu.Lock()
	s.calls[what]++
	if s.silent {
		s.mu.Unlock()
		<-ctx.Done()
		return fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, ctx.Err())
	}
	if err := s.err; err != nil {
		s.mu.Unlock()
		return err
	}
	return nil
}

func (s *store) Rule(ctx context.Context, name string) (rules.Info, error) {
	if err := s.answer(ctx, "rule"); err != nil {
		return rules.Info{}, err
	}
	defer s.mu.Unlock()
	r, ok := s.rules[name]
	if !ok {
		return rules.Info{}, fmt.Errorf("rule %s: %w", name, rules.ErrUnknown)
	}
	return rules.Info{Rule: r, Revision: 1}, nil
}

func (s *store) Get(ctx context.Context, name string) (queue.Info, error) {
	if err := s.answer(ctx, "get"); err != nil {
		return queue.Info{}, err
	}
	defer s.mu.Unlock()
	asked, ok := s.queues[name]
	if !ok {
		return queue.Info{}, queue.ErrUnknownQueue
	}
	return queue.Info{Spec: queue.Spec{Name: name, Rules: asked}}, nil
}

func (s *store) Attend(ctx context.Context, _ string) (int, error) {
	if err := s.answer(ctx, "attend"); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	return s.among, nil
}

func (s *store) Take(ctx context.Context, rule string, takes []rules.Take) ([]rules.Taken, error) {
	if err := s.answer(ctx, "take"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r, ok := s.rules[rule]
	if !ok {
		return nil, rules.ErrUnknown
	}
	now := leaky.Instant(time.Now().UnixMicro())
	taken := make([]rules.Taken, len(takes))
	for i, t := range takes {
		l, err := r.Of(t.Key).Limiter(r.Algorithm)
		if err != nil {
			return nil, err
		}
		ask, err := r.Ask(t, l)
		if err != nil {
			taken[i].Err = err
			continue
		}
		one := s.tallies[rule+" "+t.Key]
		if one == nil {
			one = &share{l, l.Fresh()}
			s.tallies[rule+" "+t.Key] = one
		}
		one.useLimiter(l)
		tally := one.tally
		taken[i].Shadow = r.Action == rules.Shadow
		switch t.Op {
		case rules.TakePeek:
			taken[i].Decision = tally.Peek(now, ask)
		case rules.TakeBack:
			taken[i].Decision = tally.Refund(now, ask)
		case rules.TakeAnew:
			delete(s.tallies, rule+" "+t.Key)
		default:
			taken[i].Decision, taken[i].Lease = tally.Take(now, ask), ask.Lease
		}
	}
	return taken, nil
}

// left is what a key still has, as the rules themselves say, past whatever stands in front of them.
func left(t *testing.T, r queue.Taker, rule, key string) int64 {
	t.Helper()
	taken, err := r.Take(t.Context(), rule, []rules.Take{{Op: rules.TakePeek, Key: key}})
	if err != nil || taken[0].Err != nil {
		t.Fatal(err, taken)
	}
	if !taken[0].Allowed {
		return 0
	}
	return taken[0].Remaining + 1
}

// watched is an Observer that adds up.
type watched struct {
	noObserver
	mu              sync.Mutex
	failures        int            // calls to the store
	missed          map[string]int // by queue and rule
	allowed, denied map[string]int
}

func (w *watched) Failed(string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures++
}

func (w *watched) Missing(queue, rule string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.missed == nil {
		w.missed = map[string]int{}
	}
	w.missed[queue+" "+rule]++
}

func (w *watched) failed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failures
}

func (w *watched) Away(rule, policy string, allowed, refused int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.allowed == nil {
		w.allowed, w.denied = map[string]int{}, map[string]int{}
	}
	w.allowed[rule+" "+policy] += allowed
	w.denied[rule+" "+policy] += refused
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(w.allowed)) {
		fmt.Fprintf(&b, "%s: %d and %d\n", k, w.allowed[k], w.denied[k])
	}
	return b.String()
}

// lines is a log that is counted.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.String(), text)
}

// begin runs an Admission over a store until the test ends. It is for a synctest bubble.
func begin(t *testing.T, s Engine) (*Admission, *watched, *lines) {
	t.Helper()
	return beginPatient(t, s, DefaultPatience)
}

// beginPatient is begin with so much time for the store to answer.
func beginPatient(t *testing.T, s Engine, patience time.Duration) (*Admission, *watched, *lines) {
	t.Helper()
	w, l := &watched{}, &lines{}
	a := New(s, Options{Observer: w, Logger: slog.New(slog.NewTextHandler(l, nil)), Patience: patience})
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return a, w, l
}

// passes reports how many of n takes of a key are allowed.
func passes(t *testing.T, a queue.Taker, rule, key string, n int) (allowed int) {
	t.Helper()
	for range n {
		taken, err := a.Take(t.Context(), rule, []rules.Take{{Key: key}})
		if err != nil || len(taken) != 1 || taken[0].Err != nil {
			t.Fatalf("%v, %+v", err, taken)
		}
		if taken[0].Allowed {
			allowed++
		}
	}
	return allowed
}

func contextOf(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}
