package ops_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/ops"
)

// The share of one client, alone and with others.
func TestBudgetShares(t *testing.T) {
	b := ops.NewBudget(100)
	one, two, three := b.Open("1"), b.Open("2"), b.Open("3")
	for _, step := range []struct {
		who  *ops.Account
		take int64
		want error
		used int64
	}{
		{one, 50, nil, 50},                 // alone it may have half
		{one, 1, ops.ErrShare, 50},         // and no more
		{two, 25, nil, 75},                 // a quarter is everybody's
		{two, 1, ops.ErrShare, 75},         // since the half is gone
		{three, 26, ops.ErrShare, 75},      // for all alike
		{three, 25, nil, 100},              //
		{b.Nobody(), 1, ops.ErrSpent, 100}, // what is no client's has no share, but there is no more
		{one, -30, nil, 70},                // given back
		{one, 5, nil, 75},                  // up to its quarter
		{one, 1, ops.ErrShare, 75},         //
		{b.Nobody(), 25, nil, 100},         //
		{two, -25, nil, 75},                //
		{three, -25, nil, 50},              //
		{b.Nobody(), -25, nil, 25},         //
		{one, 25, nil, 50},                 // below half again: whoever asks
	} {
		var err error
		if step.take < 0 {
			step.who.Free(-step.take)
		} else {
			err = step.who.Take(step.take)
		}
		if !errors.Is(err, step.want) || b.Used() != step.used {
			t.Fatalf(
				"%q takes %d: %v, and %d are in use; want %v and %d", step.who.Client(), step.take, err, b.Used(), step.want,
				step.used,
			)
		}
	}
}

// A client's account lasts until its last holder closes it.
func TestBudgetAccounts(t *testing.T) {
	b := ops.NewBudget(8)
	first, second := b.Open("a"), b.Open("a")
	if first != second {
		t.Error("one client has two accounts")
	}
	if err := first.Take(4); err != nil {
		t.Fatal(err)
	}
	first.Close()
	if err := b.Open("a").Take(1); !errors.Is(err, ops.ErrShare) {
		t.Errorf("the account was forgotten while it is held: %v", err)
	}
	if one := ops.NewBudget(1).Open("a"); one.Take(1) != nil || one.Take(1) == nil {
		t.Error("of one there is one")
	}
}

// Under concurrent use, the budget is never exceeded, and nothing is left in use.
func TestBudgetConcurrent(t *testing.T) {
	b := ops.NewBudget(1000)
	var all sync.WaitGroup
	for _, client := range []string{"a", "b", "c", ""} {
		for range 4 {
			all.Go(func() {
				a := b.Open(client)
				defer a.Close()
				for range 2000 {
					if a.Take(70) == nil {
						a.Free(70)
					}
				}
			})
		}
	}
	all.Wait()
	if b.Used() != 0 {
		t.Errorf("%d are left in use", b.Used())
	}
}
