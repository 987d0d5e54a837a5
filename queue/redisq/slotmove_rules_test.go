package redisq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// takers ask rules of which a key lets 100 through, and keep the accounts of it.
type takers struct {
	t       *testing.T
	engines []*redisq.Engine
	key     string
	rules   []rules.Rule
	passed  map[string]*atomic.Int64
	unknown map[string]*atomic.Int64 // perhaps
	away    atomic.Int64             // answers that nothing could be decided
	pause   atomic.Int64             // between two of one taker
	running sync.WaitGroup
}

func newTakers(t *testing.T, key string, list []rules.Rule, engines ...*redisq.Engine) *takers {
	k := &takers{
		t: t, engines: engines, key: key, rules: list, passed: map[string]*atomic.Int64{},
		unknown: map[string]*atomic.Int64{},
	}
	for _, r := range list {
		k.passed[r.Name], k.unknown[r.Name] = &atomic.Int64{}, &atomic.Int64{}
	}
	return k
}

// take asks once, and reports whether it was refused.
func (k *takers) take(e *redisq.Engine, rule string) (refused bool) {
	got, err := e.Take(context.Background(), rule, []rules.Take{{Key: k.key}})
	if err == nil {
		err = got[0].Err
	}
	switch {
	case err == nil && got[0].Allowed:
		k.passed[rule].Add(1)
	case err == nil:
		return true
	case !again(err):
		k.t.Errorf("%s: %v", rule, err)
		return true
	default:
		k.away.Add(1)
		if !isUnavailable(err) {
			k.unknown[rule].Add(1)
		}
	}
	return false
}

// run takes from all rules at once, until each refuses.
func (k *takers) run() {
	for _, r := range k.rules {
		for i := range 4 {
			k.running.Go(func() {
				for !k.take(k.engines[i%len(k.engines)], r.Name) {
					time.Sleep(time.Duration(k.pause.Load()))
				}
			})
		}
	}
}

// account checks that exactly what the rules allow has passed.
func (k *takers) account(t *testing.T) {
	t.Helper()
	k.running.Wait()
	for _, r := range k.rules {
		if n, u := k.passed[r.Name].Load(), k.unknown[r.Name].Load(); n > 100 || n+u < 100 {
			t.Errorf("%s: %d passed, and %d perhaps; want 100", r.Name, n, u)
		}
	}
}

// appends puts jobs of one lane into a queue until its rule refuses them, each again until it is known what became of
// it, and returns how many are in.
func appends(t *testing.T, e *redisq.Engine, name, lane string, from int) (in int) {
	for i := from; ; {
		answers, err := e.Append(context.Background(), []queue.Job{{
			Queue: name, ID: fmt.Sprint(lane, "-", i),
			Lane: lane,
		}})
		switch {
		case err != nil && again(err):
		case err != nil:
			t.Errorf("append: %v", err)
			return in
		case answers[0].Outcome == queue.Accepted || answers[0].Outcome == queue.Duplicate:
			in++
			i++
		case answers[0].Outcome == queue.LimitReached:
			return in
		case answers[0].Outcome == queue.Failed && again(answers[0].Err):
		default:
			t.Errorf("append: %+v", answers[0])
			return in
		}
	}
}

// A slot moves while its rules are asked, by takes and by appends: nothing passes that would not have, nothing that was
// taken is forgotten, and who asks while some of its keys are away is told to ask again.
func TestSlotMovesUnderTakes(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, redistest.ClusterOptions{})
	v := open(t, cluster.Client(), redisq.Options{Init: true, Partitions: 8})
	other := open(t, cluster.Client(), redisq.Options{Init: true, Partitions: 8})
	asked := exact()
	for _, r := range asked {
		v.rule(r)
	}
	v.rule(rules.Rule{
		Name: "r.jobs", Algorithm: leaky.AlgorithmSlidingLog,
		Bound: rules.Bound{Limit: 100, Period: unit.Duration(time.Hour)}, Key: "{lane}",
	})
	v.put("r", leaky.PerSecond(1), func(s *queue.Spec) { s.Capacity, s.Rules = 10_000, []string{"r.jobs"} })
	hash := fmt.Sprintf("ps{%d}", v.e.Partition("r"))
	source, err := cluster.NodeOf(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(cluster.Nodes, source)
	m := &slotMove{t: t, cluster: cluster, slot: source.Client().ClusterKeySlot(t.Context(), hash).Val(), to: source}
	for round, c := range []struct {
		name  string
		order func(keys []string)
	}{
		{"the partition's hash last", func([]string) {}},
		{"the partition's hash first", func(keys []string) { slices.Reverse(keys) }},
	} {
		// whether they ask from the beginning, or only once some keys are away
		for _, early := range []bool{false, true} {
			ok := t.Run(fmt.Sprintf("%s, early %v", c.name, early), func(t *testing.T) {
				m.t = t
				lane := fmt.Sprintf("lane-%d-%v", round, early)
				k := newTakers(t, lane, asked, v.e, other.e)
				for _, r := range asked {
					for range 30 {
						if k.take(v.e, r.Name) {
							t.Fatalf("%s refuses before 100", r.Name)
						}
					}
				}
				var in atomic.Int64
				run := func() {
					k.run()
					for i, e := range []*redisq.Engine{v.e, other.e} {
						k.running.Go(func() { in.Add(int64(appends(t, e, "r", lane, i*1_000))) })
					}
				}
				m.from, m.to = m.to, cluster.Nodes[(at+2*round+map[bool]int{
					true:  2,
					false: 1,
				}[early])%len(cluster.Nodes)]
				if m.from == m.to {
					t.Fatal("it stays where it is")
				}
				keys := m.begin()
				slices.SortFunc(keys, func(a, b string) int { return len(b) - len(a) })
				c.order(keys)
				if early {
					run()
				}
				half := len(keys) / 2
				for _, key := range keys[:half] { // one at a time, between which they ask
					m.move([]string{key})
				}
				if !early {
					run()
				}
				before := k.away.Load()
				for deadline := time.Now().Add(30 * time.Second); k.away.Load() < before+20 &&
					k.more(); time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatal("nobody asks, or is answered")
					}
				}
				rest := m.do(m.from, "CLUSTER", "GETKEYSINSLOT", m.slot, 1_000_000).([]any)
				keys = keys[:0]
				for _, key := range rest {
					keys = append(keys, key.(string))
				}
				m.move(keys)
				m.end()
				k.account(t)
				if n := in.Load(); n != 100 {
					t.Errorf("%d jobs are in, want 100", n)
				}
			})
			if !ok { // the slot may be anywhere
				return
			}
		}
	}
	if i := v.info("r"); i.Waiting != 400 || i.Appended != 400 {
		t.Errorf("%d jobs wait, %d were appended, want 400", i.Waiting, i.Appended)
	}
}

// sum is how many have passed.
func (k *takers) sum() (n int64) {
	for _, r := range k.rules {
		n += k.passed[r.Name].Load()
	}
	return n
}

// more reports whether any rule may still let somebody through.
func (k *takers) more() bool {
	for _, r := range k.rules {
		if k.passed[r.Name].Load() < 100 {
			return true
		}
	}
	return false
}

func isUnavailable(err error) bool {
	return errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrOutcomeUnknown)
}
