package audit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue/audit"
)

// chain is an audit log from a number on.
func chain(t *testing.T, first, n int, previous audit.Digest) (list []audit.Record) {
	t.Helper()
	for i := range n {
		list = append(list, link(t, int64(first+i), previous, fmt.Sprint("q", first+i)))
		previous = list[i].Digest
	}
	return list
}

func link(t *testing.T, number int64, previous audit.Digest, name string) audit.Record {
	t.Helper()
	follows := number - 1
	if previous == "" {
		follows = 0
	}
	return linked(t, number, follows, audit.Nobody, previous, name)
}

func linked(
	t *testing.T, number, follows int64, budget audit.Budget, previous audit.Digest, name string,
) audit.Record {
	t.Helper()
	r := audit.Record{Before: []byte(`{"rate":"1/s"}`), After: []byte(`{"rate":"2/s"}`)}
	actor := audit.Actor{}
	if budget != audit.Nobody {
		actor.App = strings.TrimPrefix(string(budget), "app:")
	}
	text, err := json.Marshal(audit.Entry{
		Number: number, Budget: budget, Follows: follows, Actor: actor, Previous: string(previous), Of: "queue", Name: name,
		What:   changekind.Changed,
		Before: audit.DigestOf(r.Before), After: audit.DigestOf(r.After),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Text, r.Digest = text, audit.DigestOf(text)
	return r
}

// leftOut is a record that says that it has no text of one side.
func leftOut(t *testing.T, r audit.Record, side string) audit.Record {
	t.Helper()
	e, err := r.Entry()
	if err != nil {
		t.Fatal(err)
	}
	e.LeftOut = []string{side}
	if side == audit.Before {
		r.Before = nil
	} else {
		r.After = nil
	}
	if r.Text, err = json.Marshal(e); err != nil {
		t.Fatal(err)
	}
	r.Digest = audit.DigestOf(r.Text)
	return r
}

// An entry whose text was too long to keep verifies without it.
func TestAuditVerifierOfWhatWasLeftOut(t *testing.T) {
	list := chain(t, 1, 3, "")
	for _, side := range []string{audit.Before, audit.After} {
		list[2] = leftOut(t, list[2], side)
		var v audit.Verifier
		if err := v.Add(list); err == nil {
			err = v.End(newest(3, list[2].Digest))
			if err != nil {
				t.Errorf("%s: %v", side, err)
			}
		} else {
			t.Errorf("%s: %v", side, err)
		}
		list = chain(t, 1, 3, "")
	}
}

// newest is what a log of one budget says of its end.
func newest(number int64, head audit.Digest) []audit.Chain {
	return []audit.Chain{{Budget: audit.Nobody, Newest: number, Head: head}}
}

// Entries dropped from one budget leave gaps among the entries of others, whose chains verify.
func TestAuditVerifierOfBudgets(t *testing.T) {
	a, b := audit.OfApp("a"), audit.OfApp("b")
	var list []audit.Record
	last := map[audit.Budget]audit.Link{}
	for i, budget := range []audit.Budget{a, b, b, a, b, a} {
		before := last[budget]
		r := linked(t, int64(i+1), before.Number, budget, before.Digest, "q")
		last[budget] = audit.Link{Number: int64(i + 1), Digest: r.Digest}
		list = append(list, r)
	}
	chains := []audit.Chain{
		{Budget: a, Newest: 6, Head: list[5].Digest}, {Budget: b, Newest: 5, Head: list[4].Digest},
	}
	verify := func(list []audit.Record) *audit.Break {
		var v audit.Verifier
		err := v.Add(list)
		if err == nil {
			err = v.End(chains)
		}
		var broken *audit.Break
		errors.As(err, &broken)
		return broken
	}
	pick := func(numbers ...int) (some []audit.Record) {
		for _, n := range numbers {
			some = append(some, list[n-1])
		}
		return some
	}
	for _, numbers := range [][]int{{1, 2, 3, 4, 5, 6}, {1, 3, 4, 5, 6}, {1, 4, 5, 6}, {5, 6}} { // b's oldest are gone
		if broken := verify(pick(numbers...)); broken != nil {
			t.Errorf("%v: %v", numbers, broken)
		}
	}
	for _, tt := range []struct {
		numbers []int
		fault   audit.Fault
		number  int64
	}{
		{[]int{1, 2, 3, 5, 6}, audit.Missing, 6},
		{[]int{1, 2, 4, 5, 6}, audit.Missing, 5},
		{[]int{1, 2, 3, 4, 6}, audit.Cut, 5},
	} {
		if broken := verify(pick(tt.numbers...)); broken == nil || broken.Fault != tt.fault || broken.Number != tt.number {
			t.Errorf("%v: %v, want %s at %d", tt.numbers, broken, tt.fault, tt.number)
		}
	}
}

func TestAuditVerifier(t *testing.T) {
	const far = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, tt := range []struct {
		name   string
		change func(list []audit.Record) []audit.Record
		fault  audit.Fault // "" means no fault
		number int64
	}{
		{"as it was written", func(l []audit.Record) []audit.Record { return l }, "", 0},
		{"the oldest dropped", func(l []audit.Record) []audit.Record { return l[4:] }, "", 0},
		{"a text changed", func(l []audit.Record) []audit.Record {
			l[3].Text = []byte(string(l[3].Text[:len(l[3].Text)-1]) + " }")
			return l
		}, audit.Changed, 4},
		{"a text changed with its digest", func(l []audit.Record) []audit.Record {
			l[3] = link(t, 4, l[2].Digest, "other")
			return l
		}, audit.Unlinked, 5},
		{"the newest changed with its digest", func(l []audit.Record) []audit.Record {
			l[9] = link(t, 10, l[8].Digest, "other")
			return l
		}, audit.Unlinked, 10},
		{"what was before changed", func(l []audit.Record) []audit.Record {
			l[0].Before = []byte(`{"rate":"3/s"}`)
			return l
		}, audit.Changed, 1},
		{"what was before removed", func(l []audit.Record) []audit.Record {
			l[0].Before = nil
			return l
		}, audit.Changed, 1},
		{"what was after changed", func(l []audit.Record) []audit.Record {
			l[9].After = []byte(`{}`)
			return l
		}, audit.Changed, 10},
		{"one removed", func(l []audit.Record) []audit.Record {
			return slices.Delete(l, 3, 4)
		}, audit.Missing, 5},
		{"some removed and the chain joined", func(l []audit.Record) []audit.Record {
			return append(l[:3:3], chain(t, 7, 4, l[2].Digest)...)
		}, audit.Missing, 7},
		{"one removed and those behind it numbered again", func(l []audit.Record) []audit.Record {
			return append(l[:3:3], chain(t, 4, 6, l[2].Digest)...)
		}, audit.Cut, 10},
		{"the newest removed", func(l []audit.Record) []audit.Record { return l[:8] }, audit.Cut, 10},
		{"all removed", func(l []audit.Record) []audit.Record { return nil }, audit.Cut, 10},
		{"one put in between", func(l []audit.Record) []audit.Record {
			return slices.Insert(l, 3, link(t, 4, l[2].Digest, "other"))
		}, audit.Misplaced, 4},
		{"one twice", func(l []audit.Record) []audit.Record {
			return slices.Insert(l, 3, l[2])
		}, audit.Misplaced, 3},
		{"two in another order", func(l []audit.Record) []audit.Record {
			l[3], l[4] = l[4], l[3]
			return l
		}, audit.Missing, 5},
		{"the oldest behind the others", func(l []audit.Record) []audit.Record {
			return append(l[1:], l[0])
		}, audit.Misplaced, 1},
		{"the first names another", func(l []audit.Record) []audit.Record {
			l[0] = linked(t, 1, 0, audit.Nobody, far, "q1")
			return l
		}, audit.Unlinked, 1},
		{"an entry in the budget of another", func(l []audit.Record) []audit.Record {
			text := strings.Replace(string(l[9].Text), `"budget":"nobody"`, `"budget":"operators"`, 1)
			l[9].Text, l[9].Digest = []byte(text), audit.DigestOf([]byte(text))
			return l
		}, audit.Foreign, 10},
		{"what is not JSON", func(l []audit.Record) []audit.Record {
			l[3].Text = []byte("x")
			return l
		}, audit.Unreadable, 4},
		{"what was before left out", func(l []audit.Record) []audit.Record {
			return append(l[:9:9], leftOut(t, l[9], "before"))
		}, audit.Unlinked, 10},
		{"what was after removed beside what was left out", func(l []audit.Record) []audit.Record {
			l[9] = leftOut(t, l[9], "before")
			l[9].After = nil
			return l
		}, audit.Changed, 10},
		{"what was left out is there", func(l []audit.Record) []audit.Record {
			before := l[9].Before
			l[9] = leftOut(t, l[9], "before")
			l[9].Before = before
			return l
		}, audit.Changed, 10},
		{"nothing is left out", func(l []audit.Record) []audit.Record {
			l[9] = leftOut(t, audit.Record{Text: []byte(
				`{"number":10,"budget":"nobody","follows":9,"previous":"` + string(l[8].Digest) + `"}`)}, "after")
			return l
		}, audit.Changed, 10},
		{"of another partition", func(l []audit.Record) []audit.Record {
			text := strings.Replace(string(l[3].Text), `"partition":0`, `"partition":1`, 1)
			l[3].Text, l[3].Digest = []byte(text), audit.DigestOf([]byte(text))
			return l
		}, audit.Foreign, 4},
		{"no number", func(l []audit.Record) []audit.Record {
			l[0] = link(t, 0, "", "q")
			return l
		}, audit.Unreadable, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := chain(t, 1, 10, "")
			head := list[9].Digest
			list = tt.change(list)
			for piece := 1; piece <= 11; piece += 5 {
				var v audit.Verifier
				var err error
				for some := range slices.Chunk(list, piece) {
					if err = v.Add(some); err != nil {
						break
					}
				}
				if err == nil {
					err = v.End(newest(10, head))
				}
				var broken *audit.Break
				if errors.As(err, &broken); tt.fault == "" && err != nil ||
					tt.fault != "" && (broken == nil || broken.Fault != tt.fault || broken.Number != tt.number) {
					t.Errorf("%d at a time: %v, want %s at %d", piece, err, tt.fault, tt.number)
				}
			}
		})
	}
}

// A chain verified up to an entry continues after it, or is a different one.
func TestAuditVerifierGoesOn(t *testing.T) {
	list := chain(t, 1, 10, "")
	behind := func(digest audit.Digest) audit.Verifier {
		return audit.Verifier{Number: 5, Links: map[audit.Budget]audit.Link{audit.Nobody: {Number: 5, Digest: digest}}}
	}
	v := behind(list[4].Digest)
	if err := v.Add(list[5:]); err != nil {
		t.Error(err)
	}
	if err := v.End(newest(8, list[7].Digest)); err != nil { // it has grown since
		t.Error(err)
	}
	v = behind(list[3].Digest)
	var broken *audit.Break
	if err := v.Add(list[5:]); !errors.As(err, &broken) || broken.Fault != audit.Unlinked || broken.Number != 6 {
		t.Error(err)
	}
	v = behind(list[4].Digest)
	if err := v.Add(list[6:]); !errors.As(err, &broken) || broken.Fault != audit.Missing || broken.Number != 7 {
		t.Error(err)
	}
}
