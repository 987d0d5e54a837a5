package queuetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/rules"
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

var auditJobRules = []rule{
	{"moving jobs leaves no entry", func(r *rig) {
		q := r.queue("q", "unlimited", func(s *queue.Spec) { s.OnUnknown = queue.UnknownHold })
		r.putRule(countingRule("q.r", 5))
		r.audits(0, 0, func() {
			r.accept(q, "a", "b", "c", "d", "e")
			v := r.grant(q, 5, "a", "b", "c", "d", "e")
			_, err := r.e.Extend(r.ctx, []queue.Lease{lease(v[0])})
			r.check(err)
			for i, verdict := range []queue.Verdict{queue.Deliver, queue.Bury, queue.Hold, queue.Release, queue.Fail} {
				r.settle(settlement(verdict, v[i]))
			}
			_, err = r.e.Take(r.ctx, "q.r", []rules.Take{{Key: "k"}})
			r.check(err)
			r.clock.Advance(time.Hour) // leases run out, jobs come back
			r.reserve(q, 9)
			r.info(q)
		})
	}},
	{"each call that changes jobs is an entry with their number", func(r *rig) {
		q := r.queue("q", "unlimited", func(s *queue.Spec) { s.OnUnknown = queue.UnknownHold })
		of := func(what changekind.Kind, jobs int64, ids ...string) audit.Entry {
			return audit.Entry{Of: "queue", Name: q, What: what, Jobs: jobs, IDs: ids}
		}
		cancel := func(id string) func() {
			return func() {
				_, err := r.e.Cancel(r.ctx, q, id)
				r.check(err)
			}
		}
		r.accept(q, "a", "b")
		r.audited(of(changekind.Cancelled, 1, "a"), cancel("a")) // one change in the queue's history, but
		r.audited(of(changekind.Cancelled, 1, "b"), cancel("b")) // two entries here
		r.audits(0, 0, cancel("b"))
		if n := len(r.changes(q, 9)); n != 2 {
			r.Errorf("%d changes", n)
		}

		ids := numbered("dead", queue.MaxChangeIDs+5)
		r.accept(q, ids...)
		for _, v := range r.reserve(q, len(ids)) {
			r.settled(queue.Dead, settlement(queue.Bury, v))
		}
		replay := of(changekind.Replayed, int64(len(ids)-2), ids[2:2+queue.MaxChangeIDs]...)
		r.audited(replay, func() {
			_, err := r.e.Replay(r.ctx, q, ids[2:])
			r.check(err)
		})
		r.audits(0, 0, func() {
			_, err := r.e.Replay(r.ctx, q, ids[2:])
			r.check(err)
		})
		r.audited(of(changekind.Forgotten, 2, ids[:2]...), func() {
			_, err := r.e.Forget(r.ctx, q, append(ids[:2:2], "none"))
			r.check(err)
		})

		purged := of(changekind.Purged, 7)
		ask := queue.PurgeRequest{Queue: q, State: queue.Waiting, Limit: 7}
		purged.Detail = ask.Detail()
		purge := func() {
			done, err := r.e.Purge(r.ctx, ask)
			r.check(err)
			ask.After = done.Next
		}
		r.audited(purged, purge)
		purged.Jobs = 6
		r.audited(purged, purge)

		r.accept(q, "x", "y", "z")
		for _, v := range r.grant(q, 3, "x", "y", "z") {
			r.settled(queue.Held, settlement(queue.Hold, v))
		}
		decided := of(changekind.Decided, 2, "x", "y")
		decided.Detail, decided.Reason = queue.Bury.Decides().String(), "a bug"
		r.audited(decided, func() {
			_, err := r.e.Decide(r.ctx, q, []string{"x", "y"}, queue.Bury, "a bug")
			r.check(err)
		})
		released := of(changekind.Decided, 1, "z")
		released.Detail = queue.Release.Decides().String()
		r.audited(released, func() {
			_, err := r.e.Decide(r.ctx, q, []string{"z"}, queue.Release, "")
			r.check(err)
		})
	}},
	{"concurrent calls are separate entries", func(r *rig) {
		q := r.queue("q", "unlimited")
		const callers, each = 6, 8
		for c := range callers {
			r.accept(q, numbered(fmt.Sprint("c", c), each)...)
		}
		r.crowd(callers, func(c int) int {
			ctx := audit.WithActor(r.ctx, audit.Actor{Name: fmt.Sprint("token:", c)})
			for _, id := range numbered(fmt.Sprint("c", c), each) {
				if _, err := r.e.Cancel(ctx, q, id); err != nil {
					r.Error(err)
				}
			}
			return 0
		})
		seen := map[string]bool{}
		for _, e := range r.auditOf(r.partition(q))[1:] {
			if e.Jobs != 1 || len(e.IDs) != 1 || seen[e.IDs[0]] || e.Actor.Name != "token:"+e.IDs[0][1:2] {
				r.Errorf("%+v", e)
				continue
			}
			seen[e.IDs[0]] = true
		}
		if len(seen) != callers*each {
			r.Errorf("%d entries", len(seen))
		}
	}},
	{"forgetting dead jobs of a deleted queue is an entry of its name", func(r *rig) {
		q := r.queue("q", "1/s")
		r.accept(q, "a")
		r.settled(queue.Dead, settlement(queue.Bury, r.grant(q, 1, "a")[0]))
		r.delete(q)
		want := audit.Entry{Of: "queue", Name: q, What: changekind.Forgotten, Jobs: 1, IDs: []string{"a"}}
		r.audited(want, func() {
			_, err := r.e.Forget(r.ctx, q, []string{"a"})
			r.check(err)
		})
	}},
	{"resuming a receiver's stop is an entry", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a")
		s := settlement(queue.Throttle, r.grant(q, 1, "a")[0])
		s.After = time.Hour
		r.settled(queue.Waiting, s)
		want := audit.Entry{Of: "queue", Name: q, What: changekind.Resumed, Detail: changelog.StopLifted}
		r.audited(want, func() { r.check(r.e.Resume(r.ctx, q)) })
	}},
}

var auditTextRules = []rule{
	{"an entry has only the digest of a text that is too long, and says so", func(r *rig) {
		of := func(length int) string { return `"` + strings.Repeat("x", length-2) + `"` }
		const most = audit.MaxTextBytes
		before := ""
		for _, length := range []int{most, most + 1, most + 2, 7 * most, most, 10} {
			after := of(length)
			entries, records := r.audits(0, 1, func() { r.putDocument("app", "a", after) })
			var leftOut []string
			for _, side := range []struct {
				name, want string
				got        []byte
				digest     audit.Digest
			}{
				{audit.Before, before, records[0].Before, entries[0].Before},
				{audit.After, after, records[0].After, entries[0].After},
			} {
				want, digest := side.want, audit.DigestOf([]byte(side.want))
				if want == "" {
					digest = ""
				}
				if len(want) > most {
					want, leftOut = "", append(leftOut, side.name)
				}
				if string(side.got) != want || side.digest != digest {
					r.Errorf("%s has %d bytes with digest %s, want %d with %s", side.name, len(side.got), side.digest,
						len(want), digest)
				}
			}
			if got := entries[0].LeftOut; !slices.Equal(got, leftOut) {
				r.Errorf("%d bytes: %q are left out, want %q", length, got, leftOut)
			}
			var diff *audit.Diff
			if leftOut != nil {
				d := audit.DiffOf(before, after)
				diff = &d
			}
			if got := entries[0].Diff; (got == nil) != (diff == nil) || diff != nil && *got != *diff {
				r.Errorf("%d bytes: differs in %+v, want %+v", length, got, diff)
			}
			before = after
		}
	}},
	{"an entry has only the digest of a spec that is too long", func(r *rig) {
		long := spec("q", "1/s", func(s *queue.Spec) {
			s.Deliver = fmt.Appendf(nil, `{"http":{"url":"http://a.example/%s"}}`, strings.Repeat("x", audit.MaxTextBytes))
		})
		short := spec("q", "2/s")
		r.put(long)
		r.put(short)
		records := r.auditRecords(r.partition("q"))
		for i, want := range []string{audit.After, audit.Before} {
			e, err := records[i].Entry()
			r.check(err)
			if digest := audit.DigestOf(r.specText(long)); !slices.Equal(e.LeftOut, []string{want}) ||
				want == audit.After && e.After != digest || want == audit.Before && e.Before != digest {
				r.Errorf("entry %d: %s", i+1, records[i].Text)
			}
		}
	}},
	{"the changed part is cut at a whole character", func(r *rig) {
		long := strings.Repeat("ü", audit.MaxTextBytes)
		before := ""
		for _, after := range []string{
			`"` + long + `é!"`, `"` + long + `ê!"`, `"` + long + `ũ©!"`, `"é` + long + `"`, `"é"`,
		} {
			entries, records := r.audits(0, 1, func() { r.putDocument("app", "a", after) })
			if want, got := audit.DiffOf(before, after), entries[0].Diff; got == nil || *got != want {
				r.Errorf("%+v, want %+v", got, want)
			}
			if n := len(records[0].Text); n > 4*audit.MaxDiffBytes {
				r.Errorf("an entry of %d bytes", n)
			}
			before = after
		}
	}},
}
