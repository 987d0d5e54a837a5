package queuetest

import (
	"bytes"
	"fmt"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// auditRecords reads the audit log of a partition in pages and verifies it.
func (r *rig) auditRecords(partition int) (all []audit.Record) {
	r.Helper()
	v := audit.Verifier{Partition: partition}
	var from int64
	for {
		page, err := r.e.Audit(r.ctx, audit.Request{Partition: partition, From: from, Limit: 7})
		r.check(err)
		r.check(v.Add(page.Records))
		all = append(all, page.Records...)
		if len(page.Records) < 7 {
			r.check(v.End(page.Chains))
			return all
		}
		from = v.Number + 1
	}
}

// auditOf verifies the audit log of a partition and returns its entries, oldest first.
func (r *rig) auditOf(partition int) (entries []audit.Entry) {
	r.Helper()
	records := r.auditRecords(partition)
	for i := range records {
		e, err := records[i].Entry()
		r.check(err)
		entries = append(entries, e)
	}
	return entries
}

// audits calls do with an actor. It checks that do leaves want entries in this partition and none in others, and
// returns these entries with the records around them.
func (r *rig) audits(partition, want int, do func()) (entries []audit.Entry, records []audit.Record) {
	r.Helper()
	length := func() (n []int) {
		for p := range r.e.Partitions() {
			n = append(n, len(r.auditRecords(p)))
		}
		return n
	}
	before, ctx := length(), r.ctx
	actor := audit.Actor{
		Name: "token:4f1c", App: "acme", Token: "4f1c", Address: "192.0.2.7:5310", Request: "r-1", Operation: "op",
		Note: `ann "at" <desk>`,
	}
	r.ctx = audit.WithActor(ctx, actor)
	do()
	r.ctx = ctx
	for p, n := range length() {
		if p == partition {
			before[p] += want
		}
		if n != before[p] {
			r.Fatalf("partition %d has %d entries, want %d", p, n, before[p])
		}
	}
	all := r.auditOf(partition)
	entries = all[len(all)-want:]
	for i := range entries {
		if e := &entries[i]; e.Actor != actor || e.At != int64(r.clock.Now()) {
			r.Errorf("got %+v", e)
		}
	}
	records = r.auditRecords(partition)
	return entries, records[len(records)-want:]
}

// audited calls do and compares the entry it leaves with want, except number and digests.
func (r *rig) audited(want audit.Entry, do func()) audit.Record {
	r.Helper()
	p := 0
	if want.Of == string(queue.OfQueue) || want.Of == string(queue.OfRule) {
		p = r.partition(want.Name)
	}
	entries, records := r.audits(p, 1, do)
	got := auditText(&entries[0])
	if text := auditText(&want); got != text {
		r.Errorf("got  %s\nwant %s", got, text)
	}
	return records[0]
}

// auditText formats an entry without its number, time, actor, revisions and digests.
func auditText(e *audit.Entry) string {
	return fmt.Sprintf("%s %s %s; refused %q %d times; %q %q until %d; %d jobs %q", e.Of, e.Name, e.What, e.Refused,
		e.Times, e.Detail, e.Reason, e.Until, e.Jobs, e.IDs)
}

// checkAround compares the texts before and after a change with a record.
func (r *rig) checkAround(got audit.Record, before, after []byte) {
	r.Helper()
	e, err := got.Entry()
	r.check(err)
	if !bytes.Equal(got.Before, before) || !bytes.Equal(got.After, after) {
		r.Errorf("from %s to %s; want from %s to %s", got.Before, got.After, before, after)
	}
	if e.Before != audit.DigestOf(before) || e.After != audit.DigestOf(after) {
		r.Errorf("digests %q and %q", e.Before, e.After)
	}
}

func (r *rig) specText(s queue.Spec) []byte {
	r.Helper()
	text, err := queue.EncodeSpec(s)
	r.check(err)
	return text
}
