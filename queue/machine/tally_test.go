package machine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// oneOfEach returns a rule of each algorithm that allows at most 6.
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
		{
			Name: "q.budget", Key: "{lane}", Algorithm: leaky.AlgorithmBudget, Unit: "tokens",
			Bound: rules.Bound{Rate: rate, Burst: 6},
		},
	}
}

// taken returns the encoded tally.
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

// Never one more than allowed, for callers by name and appends together.
func TestNeverOneMore(t *testing.T) {
	b := start(t, Options{})
	for _, r := range oneOfEach() {
		r.Name, r.Key = r.Name+"2", ""
		most := int64(6)
		if r.Algorithm == leaky.AlgorithmGap {
			most = 1
		}
		b.MustPutRule(r)
		queues := r.Algorithm != leaky.AlgorithmConcurrency && r.Algorithm != leaky.AlgorithmBudget
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
					if b.MustTake(r.Name, rules.Take{Cost: 1, Unit: r.Unit}).Allowed {
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

// A rule whose numbers change keeps what was taken, as last written; see Limiter.Restore.
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

// A large tally is read with changed numbers once, and not on each look; the first refusal still corrects it.
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

// The tally that is checked first is on top after any changes, and unused pages are freed.
func TestTallyHeap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 31))
	var w tallyHeap
	var all []*tally
	for step := range 40_000 {
		switch grows := step < 20_000; {
		case len(all) == 0 || rnd.IntN(10) < 6 == grows:
			v := &tally{checkAt: leaky.Instant(rnd.IntN(1000)), heapIndex: -1}
			w.push(v)
			all = append(all, v)
		case rnd.IntN(3) == 0:
			v := w.top()
			v.checkAt += leaky.Instant(rnd.IntN(100))
			w.fix(0)
		default:
			i := rnd.IntN(len(all))
			w.remove(all[i])
			if all[i].heapIndex != -1 {
				t.Fatal("one that is out has a place")
			}
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
		}
		if w.len() != len(all) {
			t.Fatalf("%d in place of %d", w.len(), len(all))
		}
		if most := len(all)/tallyHeapPage + 2; len(w.pages) > most {
			t.Fatalf("%d pages for %d", len(w.pages), len(all))
		}
		if len(all) > 0 && step%97 == 0 {
			first := slices.MinFunc(all, func(a, b *tally) int { return int(a.checkAt - b.checkAt) })
			if w.top().checkAt != first.checkAt {
				t.Fatalf("on top is %d, the first is %d", w.top().checkAt, first.checkAt)
			}
			for i := range w.n {
				if int(w.at(i).heapIndex) != i {
					t.Fatalf("at %d is one that takes itself to be at %d", i, w.at(i).heapIndex)
				}
			}
		}
	}
}

// A chunkList returns everything in the order in which it came.
func TestChunkList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 37))
	var p chunkList[int]
	came, went := 0, 0
	for range 3000 {
		for range rnd.IntN(20) {
			p.add(came)
			came++
		}
		limit := 1 + rnd.IntN(15)
		some := p.take(limit)
		if len(some) > limit || len(some) == 0 && came > went {
			t.Fatalf("took %d of %d, up to %d", len(some), came-went, limit)
		}
		for _, v := range some {
			if v != went {
				t.Fatalf("took %d in place of %d", v, went)
			}
			went++
		}
		if p.n != came-went {
			t.Fatalf("%d are left, it says %d", came-went, p.n)
		}
	}
}

// Takes that were refunded or reset while the store was full are stored in the same commit as their audit entry,
// whatever else is in it.
func TestAuditOfTakesGoesWithThem(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault, behind: true})
	ctx := audit.WithActor(context.Background(), audit.Actor{Name: "unix:0"})
	if _, err := b.PutRule(ctx, enginetest.PerHour("g.r", 10), 0); err != nil {
		t.Fatal(err)
	}
	ask := func(op rules.TakeOp, key string, cost int64) {
		t.Helper()
		taken, err := b.Take(ctx, "g.r", []rules.Take{{Op: op, Key: key, Cost: cost}})
		if err != nil || taken[0].Err != nil {
			t.Fatal(taken, err)
		}
	}
	ask(rules.TakeNow, "back", 8)
	ask(rules.TakeNow, "anew", 8)
	b.save()
	for i := range uint64(2 * commitForgets) { // forgotten records come first
		b.droppedTallies.add(1<<40 + i)
	}
	n.all.Store(true)
	ask(rules.TakeBack, "back", 4)
	ask(rules.TakeAnew, "anew", 1)
	n.all.Store(false)
	b.forgive()
	if _, err := b.PutDocument(ctx, document.Document{Kind: "app", Name: "a", Text: []byte("1")}, 0); err != nil {
		t.Fatal(err)
	}
	b.crash()
	page, err := b.Audit(ctx, audit.Request{From: 1, Limit: 9})
	if err != nil || len(page.Records) != 4 { // for the rule, for both takes, and for the document
		t.Errorf("%+v, %v", page.Records, err)
	}
	for key, left := range map[string]int64{"back": 6, "anew": 10} {
		taken, err := b.Take(t.Context(), "g.r", []rules.Take{{Op: rules.TakePeek, Key: key}})
		if err != nil || taken[0].Remaining != left-1 { // had it been a take
			t.Errorf("of %s there is %+v, %v", key, taken, err)
		}
	}
}
