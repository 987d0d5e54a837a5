package machine

import (
	"context"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Keys that nobody asks for take no memory, nor room in the file.
func TestKeysExpire(t *testing.T) {
	b := start(t, Options{behind: true})
	b.putRule(queue.Rule{
		Name: "r", Algorithm: leaky.AlgorithmMeter, Key: "{lane}",
		Bound: queue.Bound{Rate: leaky.PerSecond(1), Burst: 2},
	})
	const keys = 20_000
	known := func() (n, heap int) {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return b.rules["r"].tallies.len(), b.tallyCount()
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
	b.reopen()
	b.advance(time.Hour)
	b.reopen()
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
		if b.save(); b.records(talliesTable) != len(takes) {
			t.Fatalf("%d on file", b.records(talliesTable))
		}
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
			if n := b.tallyCount(); n != 0 {
				t.Errorf("%s: %d in memory", what, n)
			}
			b.Engine.mu.Unlock()
		}
	}
}

// Most keys take little, and those that took more do so again when what was taken is over.
func TestAKeyIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(tally{}); size != 112 {
		t.Errorf("a tally is %d bytes", size)
	}
	b := start(t, Options{behind: true})
	live := func(rule string) bool {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return b.rules[rule].tallies.find(queue.LaneDigest{}).unpacked != nil
	}
	for _, r := range oneOfEach() {
		r.Name = "r." + string(r.Algorithm)
		b.putRule(r)
		b.take(r.Name, queue.Take{})
		if live(r.Name) {
			t.Errorf("%s does not fit", r.Algorithm)
		}
	}
	b.putRule(queue.Rule{
		Name: "log", Algorithm: leaky.AlgorithmSlidingLog,
		Bound: queue.Bound{Limit: 100, Period: queue.Duration(time.Minute)},
	})
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
	b.save()
	if live("log") {
		t.Error("a log of few entries again is not packed")
	}
	if left := b.left("log", ""); left != 98 { // one is of 59 s ago
		t.Errorf("%d left", left)
	}
}

// What expires together is forgotten a little at a time.
func TestNobodyWaitsForAllThatExpires(t *testing.T) {
	b := start(t, Options{behind: true})
	b.putRule(perHour("r", 1))
	const keys = 3 * expiredTalliesTurn
	for from := 0; from < keys; from += expiredTalliesTurn {
		takes := make([]queue.Take, expiredTalliesTurn)
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
	if more := e.forgetExpiredTallies(e.now(), expiredTalliesTurn); !more || e.tallyCount() != keys-expiredTalliesTurn {
		t.Errorf("%d are left, more %v", e.tallyCount(), more)
	}
	e.mu.Unlock()
	for e.ForgetExpiredTallies(e.now()) {
	}
	if n := e.tallyCount(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// tallyCount is how many there are, of all sets.
func (e *Engine) tallyCount() (n int) {
	for _, s := range e.tallySets.items {
		n += s.len()
	}
	return n
}

// What is on file counts when the engine is opened again, but for keys with overrides.
func TestKeysReopened(t *testing.T) {
	b := start(t, Options{})
	minute := queue.Duration(time.Minute)
	bound := queue.Bound{Limit: 2, Period: minute}
	b.putRule(queue.Rule{
		Name: "r", Algorithm: leaky.AlgorithmFixedWindow, Bound: bound, MaxKeys: 2,
		Overrides: map[string]queue.Bound{"vip": bound},
	})
	for _, key := range []string{"a", "vip", "b"} {
		if got := b.take("r", queue.Take{Key: key}); !got.Allowed {
			t.Errorf("%s: %+v", key, got)
		}
	}
	b.reopen()
	for key, want := range map[string]bool{"a": true, "b": true, "c": false, "vip": true} {
		if got := b.take("r", queue.Take{Key: key}); got.Allowed != want || got.MaxKeys == 0 != want {
			t.Errorf("%s: %+v", key, got)
		}
	}
}
