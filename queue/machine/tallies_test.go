package machine

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// oneOfEach is a rule of each algorithm, which lets 6 through at most.
func oneOfEach() []rules.Rule {
	minute, hour := unit.Duration(time.Minute), unit.Duration(time.Hour)
	rate := leaky.RateOf(1, int64(time.Minute/time.Microsecond))
	return []rules.Rule{
		{Name: "q.meter", Key: "{lane}", Algorithm: leaky.AlgorithmMeter, Bound: rules.Bound{Rate: rate, Burst: 6}},
		{Name: "q.token", Key: "{lane}", Algorithm: leaky.AlgorithmTokenBucket, Bound: rules.Bound{Rate: rate, Burst: 6}},
		{Name: "q.window", Key: "{lane}", Algorithm: leaky.AlgorithmFixedWindow, Bound: rules.Bound{Limit: 6, Period: hour}},
		{Name: "q.log", Key: "{lane}", Algorithm: leaky.AlgorithmSlidingLog, Bound: rules.Bound{Limit: 6, Period: hour}},
		{
			Name: "q.counter", Key: "{lane}", Algorithm: leaky.AlgorithmSlidingCounter,
			Bound: rules.Bound{Limit: 6, Period: hour},
		},
		{Name: "q.gap", Key: "{lane}", Algorithm: leaky.AlgorithmGap, Bound: rules.Bound{Period: minute}},
		{Name: "q.places", Key: "{lane}", Algorithm: leaky.AlgorithmConcurrency, Bound: rules.Bound{Limit: 6, TTL: hour}},
	}
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
		r.Name, r.Key = r.Name+"2", ""
		most := int64(6)
		if r.Algorithm == leaky.AlgorithmGap {
			most = 1
		}
		b.MustPutRule(r)
		queues := r.Algorithm != leaky.AlgorithmConcurrency
		b.MustPut("q", "unlimited", func(s *queue.Spec) {
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
						if a := b.AppendInLane("q", "", w*1000+i); a.Outcome == queue.Accepted {
							got.Add(1)
						} else if a.Outcome != queue.LimitReached {
							t.Errorf("%+v", a)
						}
						continue
					}
					if b.MustTake(r.Name, rules.Take{}).Allowed {
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
	b.MustPutRule(enginetest.PerHour("r", 2))
	b.MustTake("r", rules.Take{Key: "a"})
	b.MustTake("r", rules.Take{Key: "a"})
	b.MustPutRule(enginetest.PerHour("r", 3))
	if left := b.Left("r", "a"); left != 1 {
		t.Errorf("raised: %d left", left)
	}
	b.MustPutRule(enginetest.PerHour("r", 1))
	if left := b.Left("r", "a"); left != 0 {
		t.Errorf("lowered: %d left", left)
	}
	b.MustPutRule(enginetest.PerHour("r", 1, func(r *rules.Rule) {
		r.Overrides = map[string]rules.Bound{"a": {Limit: 5, Period: unit.Duration(time.Hour)}}
	}))
	if left := b.Left("r", "a"); left != 3 {
		t.Errorf("overridden: %d left", left)
	}
	i, err := b.Rule(context.Background(), "r")
	if err != nil {
		t.Fatal(err)
	}
	i.Overrides["a"] = rules.Bound{}
	if again, _ := b.Rule(context.Background(), "r"); reflect.DeepEqual(i, again) {
		t.Error("who read a rule can change it")
	}
}

// What is large is read by changed numbers once, and not for each that looks at it; what refuses first still puts it
// right.
func TestALargeTallyIsReadByChangedNumbersOnce(t *testing.T) {
	b := start(t, Options{behind: true})
	log := rules.Rule{
		Name: "log", Algorithm: leaky.AlgorithmSlidingLog,
		Bound: rules.Bound{Limit: 100, Period: unit.Duration(time.Hour)},
	}
	b.MustPutRule(log)
	for range 50 {
		b.MustTake("log", rules.Take{})
		b.Advance(time.Second)
	}
	log.Limit = 40
	b.MustPutRule(log)
	state := func() leaky.Tally { return b.rules["log"].tallies.find(queue.LaneDigest{}).unpacked.state }
	before := state()
	if d := b.Peek("log", ""); d.Allowed {
		t.Fatalf("%+v", d)
	}
	first := state()
	b.Peek("log", "")
	if first == before || state() != first {
		t.Error("it is read for each look")
	}
	tally := b.rules["log"].tallies.find(queue.LaneDigest{})
	if !tally.differs(state(), tally.unpacked.limiter) {
		t.Error("it counts as put right though nothing was asked but a look")
	}
}
