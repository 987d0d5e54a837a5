package boltq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/internal/await"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// forever is longer than any test: what was taken waits for other commits.
const forever = time.Hour

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
	t := r.book.tallies[queue.DigestLane(key)]
	if t == nil {
		return "nothing"
	}
	text, err := t.under(r.of(key)).AppendBinary(nil)
	if err != nil {
		b.Error(err)
	}
	return fmt.Sprintf("%q %d", text, t.expires)
}

func TestWhatWasTakenOverAReopening(t *testing.T) {
	b := start(t, Options{saveAfter: forever})
	for _, r := range oneOfEach() {
		b.putRule(r)
		for range 2 {
			b.take(r.Name, queue.Take{Key: "a"})
			b.advance(time.Second)
		}
		b.take(r.Name, queue.Take{Key: "b"})
	}
	before := map[string]leaky.Decision{}
	for _, r := range oneOfEach() {
		for _, key := range []string{"a", "b", "c"} {
			before[r.Name+key] = b.peek(r.Name, key)
		}
	}
	b.reopen()
	for _, r := range oneOfEach() {
		for _, key := range []string{"a", "b", "c"} {
			if got, want := b.peek(r.Name, key), before[r.Name+key]; got != want {
				t.Errorf("%s of %s: %+v, before %+v", key, r.Name, got, want)
			}
		}
	}
}

// The holder of a place has it under its name after a reopening.
func TestAPlaceOverAReopening(t *testing.T) {
	b := start(t, Options{})
	b.putRule(queue.Rule{Name: "r", Algorithm: leaky.AlgorithmConcurrency, Bound: queue.Bound{Limit: 1, TTL: queue.Duration(time.Hour)}})
	place := b.take("r", queue.Take{})
	b.reopen()
	if d := b.take("r", queue.Take{}); d.Allowed {
		t.Errorf("%+v", d)
	}
	b.take("r", queue.Take{Op: queue.TakeBack, Lease: place.Lease})
	if d := b.take("r", queue.Take{}); !d.Allowed {
		t.Errorf("%+v", d)
	}
}

// A take costs no commit of its own, and is on file before long.
func TestTakesAreWrittenBehind(t *testing.T) {
	var commits atomic.Int64
	b := start(t, Options{synced: func() { commits.Add(1) }, saveAfter: forever})
	b.putRule(perHour("r", 100))
	before := commits.Load()
	for i := range 50 {
		b.take("r", queue.Take{Key: fmt.Sprint(i)})
	}
	if n := commits.Load() - before; n > 0 {
		t.Errorf("%d commits", n)
	}

	c := &copies{TB: t, dir: t.TempDir()}
	b = start(t, Options{synced: c.take})
	b.putRule(perHour("r", 100))
	c.of = b.Engine
	takes := make([]queue.Take, 100)
	for i := range takes {
		takes[i].Key = fmt.Sprint(i / 2)
	}
	if _, err := b.Take(context.Background(), "r", takes); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "they are in a copy of the file", func() bool { return c.n.Load() > 0 })
	b.crash(c)
	if left := b.left("r", "7"); left != 98 {
		t.Errorf("%d left", left)
	}
}

// What is taken while the saver saves waits for company too: it must not keep the disk busy with a few at a time.
func TestTheSaverRests(t *testing.T) {
	var taken atomic.Int64
	var b *bench
	b = start(t, Options{saveAfter: forever, synced: func() {
		if n := taken.Load(); n > 0 {
			b.take("r", queue.Take{Key: fmt.Sprint("meanwhile ", n)})
		}
	}})
	b.putRule(perHour("r", 1_000_000))
	for i := range saveMax + 1 {
		b.take("r", queue.Take{Key: fmt.Sprint(i)})
	}
	taken.Add(1)
	if more := b.Engine.save(); more {
		t.Error("goes on for what can wait")
	}
	taken.Store(0)
	for i := range 2 * saveMax {
		b.take("r", queue.Take{Key: fmt.Sprint("more ", i)})
	}
	if more := b.Engine.save(); !more {
		t.Error("leaves what fills a change")
	}
}

// What was allowed before Close is on file behind it; what comes later is refused.
func TestTakesBesideClose(t *testing.T) {
	b := start(t, Options{saveAfter: forever})
	b.putRule(perHour("r", 1_000_000))
	var wg sync.WaitGroup
	var allowed atomic.Int64
	begun := make(chan struct{}, 8)
	for range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				a, err := b.Take(context.Background(), "r", []queue.Take{{Key: "k"}})
				if errors.Is(err, queue.ErrClosed) {
					return
				}
				if err != nil || !a[0].Allowed {
					t.Error(a, err)
					return
				}
				if allowed.Add(1); i == 100 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range 8 {
		<-begun
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	b.open(b.path)
	if left := b.left("r", "k"); 1_000_000-left != allowed.Load() {
		t.Errorf("%d were allowed, %d are on file", allowed.Load(), 1_000_000-left)
	}
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

// Keys that nobody asks for take no memory, nor room in the file.
func TestKeysExpire(t *testing.T) {
	b := start(t, Options{saveAfter: forever})
	b.putRule(queue.Rule{Name: "r", Algorithm: leaky.AlgorithmMeter, Key: "{lane}", Bound: queue.Bound{Rate: leaky.PerSecond(1), Burst: 2}})
	const keys = 20_000
	known := func() (n, heap int) {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return len(b.rules["r"].book.tallies), b.tallies.len()
	}
	most := 0
	for n := 0; n < keys; n += 1000 {
		takes := make([]queue.Take, 1000)
		for i := range takes {
			takes[i].Key = fmt.Sprint(n + i)
		}
		if _, err := b.Take(context.Background(), "r", takes); err != nil {
			t.Fatal(err)
		}
		b.advance(time.Second / 10) // a key is as fresh after 10 calls
		now, _ := known()
		most = max(most, now)
	}
	if most > 12_000 {
		t.Errorf("%d keys at once", most)
	}
	b.reopen()
	if n, _ := known(); n == 0 || n > 12_000 {
		t.Errorf("%d keys on file", n)
	}
	b.advance(time.Hour)
	b.sweep()
	if n, heap := known(); n != 0 || heap != 0 {
		t.Errorf("%d keys, %d in the heap", n, heap)
	}
	b.reopen()
	if n := b.records(talliesTable); n != 0 {
		t.Errorf("%d on file", n)
	}
	b.take("r", queue.Take{Key: "a"})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.advance(time.Hour)
	b.open(b.path)
	if n, heap := known(); n != 0 || heap != 0 {
		t.Errorf("%d keys that had expired were read", n)
	}
}

// sweep sweeps until there is nothing more.
func (b *bench) sweep() {
	b.Helper()
	for more := true; more; {
		var err error
		if more, err = b.Sweep(context.Background(), 0); err != nil {
			b.Fatal(err)
		}
	}
}

// What was taken before a reset, another algorithm or a deletion frees itself, in memory and on file.
func TestAResetOfManyKeys(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	fill := func() {
		takes := make([]queue.Take, queue.MaxTakes)
		for i := range takes {
			takes[i].Key = fmt.Sprint(i)
		}
		if _, err := b.Take(ctx, "r", takes); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "all are on file", func() bool { return b.records(talliesTable) == len(takes) })
	}
	another := oneOfEach()[3]
	another.Name = "r"
	for what, f := range map[string]func() error{
		"reset":   func() error { return b.ResetRule(ctx, "r") },
		"another": func() error { return second(b.PutRule(ctx, another, queue.AnyRevision)) },
		"deleted": func() error { return b.DeleteRule(ctx, "r", queue.AnyRevision) },
	} {
		for _, reopens := range []bool{false, true} {
			b.putRule(perHour("r", 1))
			fill()
			if err := f(); err != nil {
				t.Fatal(what, err)
			}
			if reopens {
				b.reopen()
			}
			b.sweep()
			b.put("q", "1/s") // with which goes what is too little for a commit of its own
			b.put("q", "2/s")
			if n := b.records(talliesTable); n != 0 {
				t.Errorf("%s: %d on file", what, n)
			}
			b.Engine.mu.Lock()
			if n := b.tallies.len(); n != 0 {
				t.Errorf("%s: %d in memory", what, n)
			}
			b.Engine.mu.Unlock()
		}
	}
}

// A state that cannot be read counts as nothing, and leaves the file.
func TestATallyThatCannotBeRead(t *testing.T) {
	b := start(t, Options{})
	b.putRule(perHour("r", 1))
	for _, key := range []string{"cut", "other", "well"} {
		b.take("r", queue.Take{Key: key})
	}
	await.Until(t, "all are on file", func() bool { return b.records(talliesTable) == 3 })
	err := b.db.Update(func(tx *bbolt.Tx) error {
		of := tx.Bucket(talliesTable)
		return errors.Join(of.Put(key(1), []byte{200}), of.Put(key(2), append(of.Get(key(2)), 9)))
	})
	if err != nil {
		t.Fatal(err)
	}
	b.reopen()
	for name, want := range map[string]int64{"cut": 1, "other": 1, "well": 0} {
		if got := b.left("r", name); got != want {
			t.Errorf("%s: %d left", name, got)
		}
	}
	b.reopen()
	if n := b.records(talliesTable); n != 1 {
		t.Errorf("%d on file", n)
	}
}

// Of two records of one key, of which the first should have left the file, the second holds.
func TestTwoTalliesOfAKey(t *testing.T) {
	b := start(t, Options{})
	b.putRule(perHour("r", 9))
	for range 2 {
		b.take("r", queue.Take{Key: "k"})
	}
	await.Until(t, "it is on file", func() bool { return b.records(talliesTable) == 1 })
	err := b.db.Update(func(tx *bbolt.Tx) error {
		of := tx.Bucket(talliesTable)
		later := bytes.Clone(of.Get(key(1)))
		later[len(later)-1] = 5 << 1 // of a window the count, as a varint
		return of.Put(key(2), later)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.reopen()
	if left := b.left("r", "k"); left != 4 {
		t.Errorf("%d left", left)
	}
	b.reopen()
	if n := b.records(talliesTable); n != 1 {
		t.Errorf("%d on file", n)
	}
}

// What the numbers of an override know of a key is not lost for being read when nobody knows which key it is.
func TestAnOverrideOverAReopening(t *testing.T) {
	b := start(t, Options{})
	b.putRule(queue.Rule{
		Name: "r", Algorithm: leaky.AlgorithmSlidingCounter, Bound: queue.Bound{Limit: 1, Period: queue.Duration(time.Second)},
		Overrides: map[string]queue.Bound{"k": {Limit: 5, Period: queue.Duration(time.Hour)}},
	})
	for range 2 {
		b.take("r", queue.Take{Key: "k"})
	}
	b.reopen()
	if left := b.left("r", "k"); left != 3 {
		t.Errorf("%d left", left)
	}
}

// Most keys take little, and those that took more do so again when what was taken is over.
func TestAKeyIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(tally{}); size != 112 {
		t.Errorf("a tally is %d bytes", size)
	}
	b := start(t, Options{saveAfter: forever})
	live := func(rule string) bool {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return b.rules[rule].book.tallies[queue.LaneDigest{}].live != nil
	}
	for _, r := range oneOfEach() {
		r.Name = "r." + string(r.Algorithm)
		b.putRule(r)
		b.take(r.Name, queue.Take{})
		if live(r.Name) {
			t.Errorf("%s does not fit", r.Algorithm)
		}
	}
	b.putRule(queue.Rule{Name: "log", Algorithm: leaky.AlgorithmSlidingLog, Bound: queue.Bound{Limit: 100, Period: queue.Duration(time.Minute)}})
	for range 50 {
		b.take("log", queue.Take{})
		b.advance(time.Second)
	}
	if !live("log") {
		t.Error("50 entries fit")
	}
	before := b.peek("log", "")
	b.reopen()
	if after := b.peek("log", ""); after != before || !live("log") {
		t.Errorf("%+v, before the reopening %+v", after, before)
	}
	b.advance(58 * time.Second)
	b.take("log", queue.Take{})
	b.Engine.save()
	if live("log") {
		t.Error("a log of few entries again is not packed")
	}
	if left := b.left("log", ""); left != 98 { // one is of 59 s ago
		t.Errorf("%d left", left)
	}
}

// What expires together is forgotten a little at a time.
func TestNobodyWaitsForAllThatExpires(t *testing.T) {
	b := start(t, Options{saveAfter: forever})
	b.putRule(perHour("r", 1))
	const keys = 3 * witherTurn
	for from := 0; from < keys; from += witherTurn {
		takes := make([]queue.Take, witherTurn)
		for i := range takes {
			takes[i].Key = fmt.Sprint(from + i)
		}
		if _, err := b.Take(context.Background(), "r", takes); err != nil {
			t.Fatal(err)
		}
	}
	b.advance(time.Hour)
	e := b.Engine
	e.mu.Lock()
	if more := e.wither(e.now(), witherTurn); !more || e.tallies.len() != keys-witherTurn {
		t.Errorf("%d are left, more %v", e.tallies.len(), more)
	}
	e.mu.Unlock()
	e.witherAll()
	if n := e.tallies.len(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// What was forgotten or given back is so over a crash, as far as it is older than what is written behind.
func TestWhatWasGivenBackIsOnFile(t *testing.T) {
	c := &copies{TB: t, dir: t.TempDir()}
	b := start(t, Options{synced: c.take, saveAfter: time.Millisecond})
	b.putRule(perHour("r", 1))
	c.of = b.Engine
	for _, key := range []string{"back", "anew"} {
		b.take("r", queue.Take{Key: key})
	}
	await.Until(t, "both are on file", func() bool { return b.records(talliesTable) == 2 })
	await.Until(t, "nothing is to be saved", func() bool { return len(b.stirred) == 0 })
	b.take("r", queue.Take{Op: queue.TakeBack, Key: "back"})
	b.take("r", queue.Take{Op: queue.TakeAnew, Key: "anew"})
	await.Until(t, "neither is", func() bool { return b.records(talliesTable) == 0 })

	b = start(t, Options{saveAfter: forever})
	b.putRule(perHour("r", 1))
	b.take("r", queue.Take{Key: "back"})
	await.Until(t, "the saver waits for company", func() bool { return len(b.stirred) == 0 })
	b.take("r", queue.Take{Op: queue.TakeBack, Key: "back"})
	if len(b.stirred) != 1 {
		t.Error("nobody was told that something is to leave the file")
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
