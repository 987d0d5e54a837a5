package machine

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

func TestTalliesSurviveReopening(t *testing.T) {
	b := start(t, Options{behind: true})
	for _, r := range oneOfEach() {
		b.MustPutRule(r)
		for range 2 {
			b.MustTake(r.Name, rules.Take{Key: "a"})
			b.Advance(time.Second)
		}
		b.MustTake(r.Name, rules.Take{Key: "b"})
	}
	before := map[string]leaky.Decision{}
	for _, r := range oneOfEach() {
		for _, key := range []string{"a", "b", "c"} {
			before[r.Name+key] = b.Peek(r.Name, key)
		}
	}
	b.reopen()
	for _, r := range oneOfEach() {
		for _, key := range []string{"a", "b", "c"} {
			if got, want := b.Peek(r.Name, key), before[r.Name+key]; got != want {
				t.Errorf("%s of %s: %+v, before %+v", key, r.Name, got, want)
			}
		}
	}
}

// The holder of a place keeps it under its name after reopening.
func TestAPlaceSurvivesReopening(t *testing.T) {
	b := start(t, Options{})
	b.MustPutRule(rules.Rule{
		Name: "r", Algorithm: leaky.AlgorithmConcurrency, Bound: rules.Bound{Limit: 1, TTL: unit.Duration(time.Hour)},
	})
	place := b.MustTake("r", rules.Take{})
	b.reopen()
	if d := b.MustTake("r", rules.Take{}); d.Allowed {
		t.Errorf("%+v", d)
	}
	b.MustTake("r", rules.Take{Op: rules.TakeBack, Lease: place.Lease})
	if d := b.MustTake("r", rules.Take{}); !d.Allowed {
		t.Errorf("%+v", d)
	}
}

// An unreadable tally counts as nothing, and is deleted from the file.
func TestATallyThatCannotBeRead(t *testing.T) {
	b := start(t, Options{})
	b.MustPutRule(enginetest.PerHour("r", 1))
	for _, key := range []string{"cut", "other", "well"} {
		b.MustTake("r", rules.Take{Key: key})
	}
	b.save()
	err := b.store.Update(func(tx Transaction) error {
		of := tx.Table(talliesTable)
		return errors.Join(of.Put(key(1), []byte{200}), of.Put(key(2), append(of.Get(key(2)), 9)))
	})
	if err != nil {
		t.Fatal(err)
	}
	b.reopen()
	for name, want := range map[string]int64{"cut": 1, "other": 1, "well": 0} {
		if got := b.Left("r", name); got != want {
			t.Errorf("%s: %d left", name, got)
		}
	}
	b.reopen()
	if n := b.records(talliesTable); n != 1 {
		t.Errorf("%d on file", n)
	}
}

// If a key has two records, the first of which should have been deleted, the second counts.
func TestTwoTalliesOfAKey(t *testing.T) {
	b := start(t, Options{})
	b.MustPutRule(enginetest.PerHour("r", 9))
	for range 2 {
		b.MustTake("r", rules.Take{Key: "k"})
	}
	b.save()
	err := b.store.Update(func(tx Transaction) error {
		of := tx.Table(talliesTable)
		later := bytes.Clone(of.Get(key(1)))
		later[len(later)-1] = 5 << 1 // of a window the count, as a varint
		return of.Put(key(2), later)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.reopen()
	if left := b.Left("r", "k"); left != 4 {
		t.Errorf("%d left", left)
	}
	b.reopen()
	if n := b.records(talliesTable); n != 1 {
		t.Errorf("%d on file", n)
	}
}

// An override's tally is not lost when it is loaded before its key is known.
func TestAnOverrideSurvivesReopening(t *testing.T) {
	b := start(t, Options{})
	b.MustPutRule(rules.Rule{
		Name: "r", Key: "{lane}", Algorithm: leaky.AlgorithmSlidingCounter,
		Bound:     rules.Bound{Limit: 1, Period: unit.Duration(time.Second)},
		Overrides: map[string]rules.Bound{"k": {Limit: 5, Period: unit.Duration(time.Hour)}},
	})
	for range 2 {
		b.MustTake("r", rules.Take{Key: "k"})
	}
	b.reopen()
	if left := b.Left("r", "k"); left != 3 {
		t.Errorf("%d left", left)
	}
}
