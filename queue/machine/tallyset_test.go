package machine

import (
	"context"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// Keys that are no longer asked take neither memory nor room in the file.
func TestKeysExpire(t *testing.T) {
	b := start(t, Options{behind: true})
	b.MustPutRule(rules.Rule{
		Name: "r", Algorithm: leaky.AlgorithmMeter, Key: "{lane}",
		Bound: rules.Bound{Rate: leaky.PerSecond(1), Burst: 2},
	})
	const keys = 20_000
	known := func() (n, heap int) {
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		return b.rules["r"].tallies.len(), b.tallyCount()
	}
	most := 0
	for n := 0; n < keys; n += 1000 {
		takes := make([]rules.Take, 1000)
		for i := range takes {
			takes[i].Key = fmt.Sprint(n + i)
		}
		if _, err := b.Take(context.Background(), "r", takes); err != nil {
			t.Fatal(err)
		}
		b.Advance(time.Second / 10) // a key is as fresh after 10 calls
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
	b.Advance(time.Hour)
	b.sweep()
	if n, heap := known(); n != 0 || heap != 0 {
		t.Errorf("%d keys, %d in the heap", n, heap)
	}
	b.reopen()
	if n := b.records(talliesTable); n != 0 {
		t.Errorf("%d on file", n)
	}
	b.MustTake("r", rules.Take{Key: "a"})
	b.reopen()
	b.Advance(time.Hour)
	b.reopen()
	if n, heap := known(); n != 0 || heap != 0 {
		t.Errorf("%d keys that had expired were read", n)
	}
}

// Keys that come and go before they are saved reuse memory, and only the last are on file.
func TestKeysThatComeAndGo(t *testing.T) {
	b := start(t, Options{behind: true})
	b.MustPutRule(rules.Rule{
		Name: "r", Algorithm: leaky.AlgorithmMeter, Key: "{lane}",
		Bound: rules.Bound{Rate: leaky.PerSecond(1), Burst: 2},
	})
	for n := range 1000 {
		b.Advance(2 * time.Second) // by then nothing counts
		key := fmt.Sprint(n)
		b.MustTake("r", rules.Take{Key: key})
		b.MustTake("r", rules.Take{Key: key + "again"})
		if n%100 == 99 {
			b.save()
		}
		if left := b.Left("r", key); left != 1 {
			t.Fatalf("%d left of key %d", left, n)
		}
	}
	if n := b.dirtyTallies.n; n > 4 {
		t.Errorf("%d tallies wait to be saved", n)
	}
	b.MustTake("r", rules.Take{Key: "last"})
	b.reopen()
	if n, left := b.records(talliesTable), b.Left("r", "last"); n != 3 || left != 1 {
		t.Errorf("%d keys on file, %d left of the last", n, left)
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

// What was taken before a reset, a change of algorithm or a deletion is freed in memory and on file.
func TestResetOfManyKeys(t *testing.T) {
	b := start(t, Options{})
	ctx := context.Background()
	fill := func() {
		takes := make([]rules.Take, rules.MaxTakes)
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
			b.MustPutRule(enginetest.PerHour("r", 1))
			fill()
			if err := f(); err != nil {
				t.Fatal(what, err)
			}
			if reopens {
				b.reopen()
			}
			b.sweep()
			b.MustPut("q", "1/s") // it carries what is too little for a commit of its own
			b.MustPut("q", "2/s")
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

// Most keys are small, and larger ones become small again when their takes are over.
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
		r.Name, r.Key = "r."+string(r.Algorithm), ""
		b.MustPutRule(r)
		b.MustTake(r.Name, rules.Take{Cost: 1, Unit: r.Unit})
		if live(r.Name) {
			t.Errorf("%s does not fit", r.Algorithm)
		}
	}
	b.MustPutRule(rules.Rule{
		Name: "log", Algorithm: leaky.AlgorithmSlidingLog,
		Bound: rules.Bound{Limit: 100, Period: unit.Duration(time.Minute)},
	})
	for range 50 {
		b.MustTake("log", rules.Take{})
		b.Advance(time.Second)
	}
	if !live("log") {
		t.Error("50 entries fit")
	}
	before := b.Peek("log", "")
	b.reopen()
	if after := b.Peek("log", ""); after != before || !live("log") {
		t.Errorf("%+v, before the reopening %+v", after, before)
	}
	b.Advance(58 * time.Second)
	b.MustTake("log", rules.Take{})
	b.save()
	if live("log") {
		t.Error("a log of few entries again is not packed")
	}
	if left := b.Left("log", ""); left != 98 { // one is of 59 s ago
		t.Errorf("%d left", left)
	}
}

// Tallies that expire together are forgotten a few at a time.
func TestExpiredTalliesAreForgottenInPieces(t *testing.T) {
	b := start(t, Options{behind: true})
	b.MustPutRule(enginetest.PerHour("r", 1))
	const keys = 3 * expiredTalliesTurn
	for from := 0; from < keys; from += expiredTalliesTurn {
		takes := make([]rules.Take, expiredTalliesTurn)
		for i := range takes {
			takes[i].Key = fmt.Sprint(from + i)
		}
		if _, err := b.Take(context.Background(), "r", takes); err != nil {
			t.Fatal(err)
		}
	}
	b.Advance(time.Hour)
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

// tallyCount returns the number of tallies in all sets.
func (e *Engine) tallyCount() (n int) {
	for s := range e.tallySets.all {
		n += s.len()
	}
	return n
}

// Tallies on file count after reopening, except for keys with overrides.
func TestKeysReopened(t *testing.T) {
	b := start(t, Options{})
	minute := unit.Duration(time.Minute)
	bound := rules.Bound{Limit: 2, Period: minute}
	b.MustPutRule(rules.Rule{
		Name: "r", Algorithm: leaky.AlgorithmFixedWindow, Bound: bound, MaxKeys: 2,
		Overrides: map[string]rules.Bound{"vip": bound},
	})
	for _, key := range []string{"a", "vip", "b"} {
		if got := b.MustTake("r", rules.Take{Key: key}); !got.Allowed {
			t.Errorf("%s: %+v", key, got)
		}
	}
	b.reopen()
	for key, want := range map[string]bool{"a": true, "b": true, "c": false, "vip": true} {
		if got := b.MustTake("r", rules.Take{Key: key}); got.Allowed != want || got.MaxKeys == 0 != want {
			t.Errorf("%s: %+v", key, got)
		}
	}
}
