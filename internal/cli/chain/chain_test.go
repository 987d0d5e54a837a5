package chain

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/audit"
)

// record makes an entry whose digests are right.
func record(t *testing.T, partition int, previous audit.Digest, e audit.Entry, after string) wire.AuditRecord {
	t.Helper()
	e.Partition, e.Previous = partition, string(previous)
	if e.Budget = audit.BudgetOf(&e.Actor, e.Refused); e.Follows == 0 && previous != "" {
		e.Follows = e.Number - 1
	}
	r := wire.AuditRecord{Partition: partition}
	if after != "" {
		r.After = json.RawMessage(after)
		e.After = audit.DigestOf(r.After)
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	r.Entry, r.Text, r.Digest = e, string(text), audit.DigestOf(text)
	return r
}

// log is one of two partitions, by turns, with so many entries each.
func log(t *testing.T, n int) (all []wire.AuditRecord) {
	t.Helper()
	var last [2]audit.Digest
	for i := range n {
		for p := range last {
			r := record(t, p, last[p], audit.Entry{
				Number: int64(i + 1), At: int64(i * 1e6), Of: "queue", Name: fmt.Sprint("q", i), What: changekind.Created,
			}, fmt.Sprintf(`{"rate":"%d/s"}`, i))
			last[p] = r.Digest
			all = append(all, r)
		}
	}
	return all
}

// verify reads a log as a whole.
func verify(all []wire.AuditRecord, since []Head, chains []wire.AuditChain) ([]Part, error) {
	v := New(since)
	for i := range all {
		if err := v.Add(&all[i]); err != nil {
			return nil, err
		}
	}
	return v.Parts(), v.End(chains)
}

// An intact log verifies, also if its oldest entries were dropped.
func TestWhole(t *testing.T) {
	all := log(t, 5)
	for _, from := range []int{0, 2, 3} {
		parts, err := verify(all[from:], nil, []wire.AuditChain{
			{Partition: 1, Budget: audit.Nobody, Oldest: 1, Newest: 5, Head: all[9].Digest},
		})
		if err != nil || len(parts) != 2 || parts[1].Head.Number != 5 || parts[1].Head.Digest != all[9].Digest {
			t.Errorf("from %d: %+v, %v", from, parts, err)
		}
	}
	if parts, err := verify(nil, nil, []wire.AuditChain{{}}); err != nil || len(parts) != 0 {
		t.Errorf("one without entries: %v, %v", parts, err)
	}
}

// Whatever is done to an entry is found, though its digest is made to fit.
func TestTampering(t *testing.T) {
	const at = 4 // entry 3 of partition 0
	for what, c := range map[string]struct {
		change func(all []wire.AuditRecord) []wire.AuditRecord
		says   string
	}{
		"removed": {func(all []wire.AuditRecord) []wire.AuditRecord { return slices.Delete(all, at, at+1) }, "are gone"},
		"moved": {func(all []wire.AuditRecord) []wire.AuditRecord {
			all[at], all[at+2] = all[at+2], all[at]
			return all
		}, "are gone"},
		"two partitions exchanged": {func(all []wire.AuditRecord) []wire.AuditRecord {
			for i := range all {
				all[i].Partition = 1 - all[i].Partition
			}
			return all
		}, "it is an entry of partition 0, in the log of partition 1"},
		"two partitions exchanged, and shown so": {func(all []wire.AuditRecord) []wire.AuditRecord {
			for i := range all {
				all[i].Partition = 1 - all[i].Partition
				all[i].Entry.Partition = all[i].Partition
			}
			return all
		}, "it is an entry of partition 0, in the log of partition 1"},
		"doubled": {func(all []wire.AuditRecord) []wire.AuditRecord { return slices.Insert(all, at, all[at]) }, "moved"},
		"changed": {func(all []wire.AuditRecord) []wire.AuditRecord {
			all[at].Text = strings.Replace(all[at].Text, "created", "changed", 1)
			return all
		}, "the digest does not match"},
		"changed with its digest": {func(all []wire.AuditRecord) []wire.AuditRecord {
			e := all[at].Entry
			e.Name = "other"
			all[at] = record(t, 0, audit.Digest(e.Previous), e, string(all[at].After))
			return all
		}, "does not match: one of the two"},
		"put in between": {func(all []wire.AuditRecord) []wire.AuditRecord {
			forged := record(t, 0, all[at].Digest, audit.Entry{Number: 4, What: changekind.Deleted}, "")
			return slices.Insert(all, at+1, forged)
		}, "moved"},
		"shown as another": {func(all []wire.AuditRecord) []wire.AuditRecord {
			all[at].Entry.Name = "other"
			return all
		}, "differ from its text"},
		"another spec": {func(all []wire.AuditRecord) []wire.AuditRecord {
			all[at].After = json.RawMessage(`{"rate":"1000/s"}`)
			return all
		}, "its after was changed"},
		"no text": {func(all []wire.AuditRecord) []wire.AuditRecord {
			all[at].Text = ""
			return all
		}, "not an entry"},
		"the beginning": {func(all []wire.AuditRecord) []wire.AuditRecord {
			e := all[at].Entry
			e.Number, e.Follows = 1, 0
			return []wire.AuditRecord{record(t, 0, all[2].Digest, e, string(all[at].After))}
		}, "it follows entry 0, but names the digest"},
		"the newest": {func(all []wire.AuditRecord) []wire.AuditRecord { return all[:8] }, "is missing"},
	} {
		all := log(t, 5)
		chains := []wire.AuditChain{{Partition: 0, Budget: audit.Nobody, Newest: 5, Head: all[8].Digest}}
		_, err := verify(c.change(all), nil, chains)
		var broken *Broken
		if !errors.As(err, &broken) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v does not say %q", what, err, c.says)
		}
	}
}

// A head that was remembered finds a log that was written anew, or cut off.
func TestHeads(t *testing.T) {
	all := log(t, 5)
	parts, err := verify(all[:6], nil, nil) // as it was then
	if err != nil {
		t.Fatal(err)
	}
	since := []Head{parts[0].Head, parts[1].Head}
	if _, err := verify(all, since, nil); err != nil {
		t.Errorf("the log that went on: %v", err)
	}
	if _, err := verify(all[4:], since, nil); err != nil {
		t.Errorf("read from the heads on: %v", err)
	}
	anew := log(t, 5)
	var last audit.Digest
	for i := 0; i < len(anew); i += 2 {
		e := anew[i].Entry
		e.Detail = "another history"
		anew[i] = record(t, 0, last, e, string(anew[i].After))
		last = anew[i].Digest
	}
	for what, c := range map[string]struct {
		all  []wire.AuditRecord
		says string
	}{
		"was rewritten": {anew, "was rewritten"}, "cut off": {all[:4], "all later entries are missing"},
		"begins later":           {all[8:], "it expired"},
		"written anew behind it": {anew[6:], "its digest of entry 3 does not match"},
	} {
		if _, err := verify(c.all, since, nil); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v does not say %q", what, err, c.says)
		}
	}
}

// Entries of another budget that were dropped are not missed, and a head of each is remembered.
func TestBudgets(t *testing.T) {
	var all []wire.AuditRecord
	last := map[string]*wire.AuditRecord{}
	for i, app := range []string{"a", "b", "b", "a", "b", "a"} {
		e := audit.Entry{Number: int64(i + 1), Actor: audit.Actor{App: app}, Of: "queue", What: changekind.Created}
		var previous audit.Digest
		if before := last[app]; before != nil {
			e.Follows, previous = before.Entry.Number, before.Digest
		}
		r := record(t, 0, previous, e, "")
		last[app] = &r
		all = append(all, r)
	}
	parts, err := verify(all[:3], nil, nil)
	if err != nil || len(parts) != 2 || parts[1].Entries != 2 {
		t.Fatalf("%+v, %v", parts, err)
	}
	since := []Head{parts[0].Head, parts[1].Head}
	pick := func(numbers ...int) (some []wire.AuditRecord) {
		for _, n := range numbers {
			some = append(some, all[n-1])
		}
		return some
	}
	if _, err := verify(pick(1, 4, 5, 6), since, nil); err != nil {
		t.Errorf("b's oldest two are gone: %v", err)
	}
	if _, err := verify(pick(1, 2, 3, 5, 6), since, nil); err == nil || !strings.Contains(err.Error(), "are gone") {
		t.Errorf("a's second is gone: %v", err)
	}
}
