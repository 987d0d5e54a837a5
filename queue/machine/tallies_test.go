package machine

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// oneOfEach is a rule of each algorithm, which lets 6 through at most.
func oneOfEach() []queue.Rule {
	minute, hour := queue.Duration(time.Minute), queue.Duration(time.Hour)
	rate := leaky.RateOf(1, int64(time.Minute/time.Microsecond))
	return []queue.Rule{
		{Name: "q.meter", Algorithm: leaky.AlgorithmMeter, Bound: queue.Bound{Rate: rate, Burst: 6}},
		{Name: "q.token", Algorithm: leaky.AlgorithmTokenBucket, Bound: queue.Bound{Rate: rate, Burst: 6}},
		{Name: "q.window", Algorithm: leaky.AlgorithmFixedWindow, Bound: queue.Bound{Limit: 6, Period: hour}},
		{Name: "q.log", Algorithm: leaky.AlgorithmSlidingLog, Bound: queue.Bound{Limit: 6, Period: hour}},
		{Name: "q.counter", Algorithm: leaky.AlgorithmSlidingCounter, Bound: queue.Bound{Limit: 6, Period: hour}},
		{Name: "q.gap", Algorithm: leaky.AlgorithmGap, Bound: queue.Bound{Period: minute}},
		{Name: "q.places", Algorithm: leaky.AlgorithmConcurrency, Bound: queue.Bound{Limit: 6, TTL: hour}},
	}
}

// peek is what taking one would answer.
func (b *bench) peek(rule, key string) leaky.Decision {
	b.Helper()
	return b.take(rule, queue.Take{Op: queue.TakePeek, Key: key}).Decision
}

// taken is what was taken, as a tally writes it.
func (b *bench) taken(rule, key string) string {
	b.Engine.mu.Lock()
	defer b.Engine.mu.Unlock()
	r := b.rules[rule]
	t := r.tallies.find(queue.DigestLane(key))
	if t == nil {
		return "nothing"
	}
	text, err := t.stateFor(r.limiterFor(key)).AppendBinary(nil)
	if err != nil {
		b.Error(err)
	}
	return fmt.Sprintf("%q %d", text, t.expires)
}

// Never one more than allowed, whoever takes: callers by name, and appends.
func TestNeverOneMore(t *testing.T) {
	b := start(t, Options{})
	for _, r := range oneOfEach() {
		r.Name += "2"
		most := int64(6)
		if r.Algorithm == leaky.AlgorithmGap {
			most = 1
		}
		b.putRule(r)
		queues := r.Algorithm != leaky.AlgorithmConcurrency
		b.put("q", "unlimited", func(s *queue.Spec) {
			if queues {
				s.Rules = []string{r.Name}
			}
		})
		var wg sync.WaitGroup
		var got atomic.Int64
		for w := range 64 {
			wg.Go(func() {
				for i := range 4 {
					if queues && w%2 == 0 {
						if a := b.come("q", "", w*1000+i); a.Outcome == queue.Accepted {
							got.Add(1)
						} else if a.Outcome != queue.LimitReached {
							t.Errorf("%+v", a)
						}
						continue
					}
					if b.take(r.Name, queue.Take{}).Allowed {
						got.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if got.Load() != most {
			t.Errorf("%s let %d through", r.Name, got.Load())
		}
		if err := b.Delete(context.Background(), "q", queue.AnyRevision, true); err != nil {
			t.Fatal(err)
		}
	}
}

// A rule whose numbers are changed knows what was taken, as it was last written; see Limiter.Restore.
func TestChangedNumbers(t *testing.T) {
	b := start(t, Options{})
	b.putRule(perHour("r", 2))
	b.take("r", queue.Take{Key: "a"})
	b.take("r", queue.Take{Key: "a"})
	b.putRule(perHour("r", 3))
	if left := b.left("r", "a"); left != 1 {
		t.Errorf("raised: %d left", left)
	}
	b.putRule(perHour("r", 1))
	if left := b.left("r", "a"); left != 0 {
		t.Errorf("lowered: %d left", left)
	}
	b.putRule(perHour("r", 1, func(r *queue.Rule) {
		r.Overrides = map[string]queue.Bound{"a": {Limit: 5, Period: queue.Duration(time.Hour)}}
	}))
	if left := b.left("r", "a"); left != 3 {
		t.Errorf("overridden: %d left", left)
	}
	i, err := b.Rule(context.Background(), "r")
	if err != nil {
		t.Fatal(err)
	}
	i.Overrides["a"] = queue.Bound{}
	if again, _ := b.Rule(context.Background(), "r"); reflect.DeepEqual(i, again) {
		t.Error("who read a rule can change it")
	}
}

// What is large is read by changed numbers once, and not for each that looks at it; what refuses first still puts it
// right.
func TestALargeTallyIsReadByChangedNumbersOnce(t *testing.T) {
	b := start(t, Options{behind: true})
	log := queue.Rule{
		Name: "log", Algorithm: leaky.AlgorithmSlidingLog,
		Bound: queue.Bound{Limit: 100, Period: queue.Duration(time.Hour)},
	}
	b.putRule(log)
	for range 50 {
		b.take("log", queue.Take{})
		b.advance(time.Second)
	}
	log.Limit = 40
	b.putRule(log)
	state := func() leaky.Tally { return b.rules["log"].tallies.find(queue.LaneDigest{}).unpacked.state }
	before := state()
	if d := b.peek("log", ""); d.Allowed {
		t.Fatalf("%+v", d)
	}
	first := state()
	b.peek("log", "")
	if first == before || state() != first {
		t.Error("it is read for each look")
	}
	tally := b.rules["log"].tallies.find(queue.LaneDigest{})
	if !tally.differs(state(), tally.unpacked.limiter) {
		t.Error("it counts as put right though nothing was asked but a look")
	}
}
