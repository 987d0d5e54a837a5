package queuetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/rules"
)

var auditRules = []rule{
	{"an empty log has no entries", func(r *rig) {
		for p := range r.e.Partitions() {
			for _, back := range []bool{false, true} {
				page, err := r.e.Audit(r.ctx, audit.Request{Partition: p, Back: back, Limit: 1})
				if r.check(err); len(page.Records) != 0 || page.Newest != 0 || page.Oldest != 0 || page.Chains != nil {
					r.Errorf("%+v", page)
				}
			}
		}
	}},
	{"each change of a queue is an entry with the spec before and after", func(r *rig) {
		of := func(what changekind.Kind) audit.Entry {
			return audit.Entry{Of: "queue", Name: "q", What: what}
		}
		first, second := spec("q", "1/s"), spec("q", "2/s")
		r.checkAround(r.audited(of(changekind.Created), func() { r.put(first) }), nil, r.specText(first))
		r.audits(0, 0, func() { r.put(first) })
		r.clock.Advance(time.Second)
		got := r.audited(of(changekind.Changed), func() { r.put(second) })
		r.checkAround(got, r.specText(first), r.specText(second))
		e, err := got.Entry()
		if r.check(err); e.Was == 0 || e.Revision <= e.Was {
			r.Errorf("from revision %d to %d", e.Was, e.Revision)
		}
		got = r.audited(of(changekind.RolledBack), func() {
			_, err := r.e.Rollback(r.ctx, "q", 0, queue.AnyRevision)
			r.check(err)
		})
		r.checkAround(got, r.specText(second), r.specText(first))
		until := r.clock.Now().Add(time.Hour)
		paused := of(changekind.Paused)
		paused.Reason, paused.Until = "invoice", int64(until)
		pause := queue.Pause{Reason: "invoice", Until: until.Time()}
		r.checkAround(r.audited(paused, func() { r.check(r.e.Pause(r.ctx, "q", pause)) }), nil, nil)
		r.audits(0, 0, func() { r.check(r.e.Pause(r.ctx, "q", pause)) })
		r.audited(of(changekind.Resumed), func() { r.check(r.e.Resume(r.ctx, "q")) })
		r.audits(0, 0, func() { r.check(r.e.Resume(r.ctx, "q")) })
		r.checkAround(r.audited(of(changekind.Deleted), func() { r.delete("q") }), r.specText(first), nil)
		r.checkAround(r.audited(of(changekind.RolledBack), func() {
			_, err := r.e.Rollback(r.ctx, "q", 0, queue.AnyRevision)
			r.check(err)
		}), nil, r.specText(first))
	}},
	{"a pause that ends by itself is no entry: nobody acted, and the pause's entry has its end", func(r *rig) {
		q := r.queue("q", "1/s")
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Until: r.clock.Now().Add(time.Second).Time()}))
		r.clock.Advance(time.Minute)
		r.queue(q, "2/s")
		all := r.auditOf(r.partition(q))
		if len(all) != 3 || all[1].What != changekind.Paused || all[1].Until == 0 || all[2].What != changekind.Changed {
			r.Errorf("%+v", all)
		}
		changes, err := r.e.Changes(r.ctx, queue.ChangesRequest{Subject: queue.OfQueue, Name: q, Limit: 2})
		if r.check(err); changes.Changes[1].What != changekind.Resumed || changes.Changes[1].Reason != changelog.LapseReason {
			r.Errorf("%+v", changes)
		}
	}},
	{"each change of a rule is an entry, with the digest of its overrides", func(r *rig) {
		of := func(what changekind.Kind) audit.Entry {
			return audit.Entry{Of: "rule", Name: "g.r", What: what}
		}
		audited := func(rule rules.Rule) []byte {
			text, err := changelog.EncodeAuditedRule(rule)
			r.check(err)
			return text
		}
		first := ruleOf("g.r", leaky.AlgorithmMeter, rules.Bound{Rate: leaky.PerSecond(3)}, withKey("{lane}"))
		second := first
		second.Overrides = map[string]rules.Bound{"vip": {Rate: leaky.PerSecond(100), Burst: 3}}
		second.Rate = leaky.PerSecond(7)
		r.checkAround(r.audited(of(changekind.Created), func() { r.putRule(first) }), nil, audited(first))
		r.audits(0, 0, func() { r.putRule(first) })
		r.checkAround(r.audited(of(changekind.Changed), func() { r.putRule(second) }), audited(first), audited(second))
		third := second
		third.Overrides = map[string]rules.Bound{"vip": {Rate: leaky.PerSecond(101), Burst: 3}}
		got := r.audited(of(changekind.Changed), func() { r.putRule(third) })
		r.checkAround(got, audited(second), audited(third))
		if text := string(got.After); bytes.Equal(got.Before, got.After) || strings.Contains(text, "vip") ||
			!strings.Contains(text, `"overrides":{"count":1,"digest":"`) {
			r.Errorf("a change of overrides is %s", text)
		}
		r.checkAround(r.audited(of(changekind.Reset), func() { r.check(r.e.ResetRule(r.ctx, "g.r")) }), nil, nil)
		r.checkAround(r.audited(of(changekind.Deleted), func() { r.deleteRule("g.r") }), audited(third), nil)
	}},
	{"giving back or resetting keys is an entry of their rule", func(r *rig) {
		of := func(what changekind.Kind, detail string) audit.Entry {
			return audit.Entry{Of: "rule", Name: "g.r", What: what, Detail: detail}
		}
		for _, a := range rules.Algorithms() {
			r.putRule(ruleOf("g.r", a, changeable(a)[0], withKey("{lane}")))
			take := func(takes ...rules.Take) func() {
				return func() {
					taken, err := r.e.Take(r.ctx, "g.r", stated(r.units["g.r"], takes))
					r.check(err)
					for i := range taken {
						if (taken[i].Err != nil) != (takes[i].Key == "") {
							r.Errorf("%s, question %d: %v", a, i, taken[i].Err)
						}
					}
				}
			}
			r.audits(0, 0, take(rules.Take{Key: "k"}, rules.Take{Key: "l"}, rules.Take{Op: rules.TakePeek, Key: "k"}))
			reset := rules.Take{Op: rules.TakeAnew, Key: "k"}
			r.checkAround(r.audited(of(changekind.Reset, "1 of its keys"), take(reset)), nil, nil)
			other := rules.Take{Op: rules.TakeAnew, Key: "l"}
			r.audited(of(changekind.Reset, "2 of its keys"), take(reset, rules.Take{Op: rules.TakeAnew}, other))
			r.audits(0, 0, take(rules.Take{Op: rules.TakeAnew}))
			if rules.NeedsUnit(a) { // a correction is the caller's own
				continue
			}
			back := rules.Take{Op: rules.TakeBack, Key: "k"}
			if a == leaky.AlgorithmConcurrency { // the lease holder gives back their own place
				back.Lease = "lease"
				r.audits(0, 0, take(rules.Take{Key: "k", Lease: "lease"}, back))
				continue
			}
			r.audits(0, 0, take(rules.Take{Key: "k"}))
			r.audited(of(changekind.Refunded, "1 of its keys"), take(back))
			records := len(r.auditOf(r.partition("g.r")))
			take(back, reset)() // part of another call: it has no actor
			if n := len(r.auditOf(r.partition("g.r"))); n != records {
				r.Errorf("%d entries, want %d", n, records)
			}
			r.audits(0, 0, func() {
				_, err := r.e.Take(r.ctx, "g.none", []rules.Take{back})
				r.refuses(err, rules.ErrUnknown)
			})
			r.deleteRule("g.r")
		}
	}},
	{"each change of a document is an entry", func(r *rig) {
		of := func(what changekind.Kind) audit.Entry {
			return audit.Entry{Of: "app", Name: "acme", What: what}
		}
		put := func(text string) func() { return func() { r.putDocument("app", "acme", text) } }
		r.checkAround(r.audited(of(changekind.Created), put(`{"n":1}`)), nil, []byte(`{"n":1}`))
		r.audits(0, 0, put(`{"n":1}`))
		got := r.audited(of(changekind.Changed), put(`{"n": 2}`))
		r.checkAround(got, []byte(`{"n":1}`), []byte(`{"n": 2}`))
		e, err := got.Entry()
		if d, _ := r.e.Document(r.ctx, "app", "acme"); err != nil || e.Revision != d.Revision || e.Was >= e.Revision {
			r.Errorf("from revision %d to %d, want %d: %v", e.Was, e.Revision, d.Revision, err)
		}
		r.checkAround(r.audited(of(changekind.Deleted), put("")), []byte(`{"n": 2}`), nil)
		r.checkAround(r.audited(of(changekind.Created), put(`{"n":1}`)), nil, []byte(`{"n":1}`))
	}},
	{"a change that the engine refused is no entry", func(r *rig) {
		q := r.queue("q", "1/s")
		r.accept(q, "a")
		r.audits(0, 0, func() {
			_, err := r.e.Put(r.ctx, spec(q, "2/s"), 0)
			r.refuses(err, queue.ErrRevision)
			r.refuses(r.e.Delete(r.ctx, q, queue.AnyRevision, false), queue.ErrNotEmpty)
			r.refuses(r.e.Pause(r.ctx, "none", queue.Pause{}), queue.ErrUnknownQueue)
			r.refuses(r.e.DeleteRule(r.ctx, "none", queue.AnyRevision), rules.ErrUnknown)
			_, err = r.e.PutDocument(r.ctx, doc("app", "a", `1`), 5)
			r.refuses(err, queue.ErrRevision)
		})
	}},
	{"a recorded refusal is an entry of the first partition", func(r *rig) {
		want := audit.Entry{
			Of: "queue", Name: "mail", What: changekind.Deleted, Refused: "forbidden", Times: 3, Detail: "queue.delete",
			Reason: "wants configure",
		}
		for range 2 {
			given := want
			given.Actor = audit.Actor{Name: "cert:a", Address: "192.0.2.7", Operation: "deleteQueue", Note: "ann"}
			given.Number, given.At, given.Previous, given.Revision = 77, 1, "x", 9 // the engine sets these
			r.clock.Advance(time.Second)
			r.check(r.e.Record(r.ctx, given))
			all := r.auditOf(0)
			got := all[len(all)-1]
			if auditText(&got) != auditText(&want) || got.Actor != given.Actor || got.At != int64(r.clock.Now()) ||
				got.Number != int64(len(all)) || got.Revision != 0 {
				r.Errorf("got %+v", got)
			}
		}
		odd := audit.Entry{
			Of: "token", Name: "a\x00\xff\u202e" + strings.Repeat("n", 1<<20), What: changekind.Refused,
			Refused: "un\nknown", Detail: strings.Repeat("d", 1<<20),
		}
		r.check(r.e.Record(r.ctx, odd))
		records := r.auditRecords(0)
		if n := len(records[len(records)-1].Text); n > 4<<10 {
			r.Errorf("an entry of %d bytes", n)
		}
		for field, bad := range map[string]audit.Entry{
			"actor": {Actor: audit.Actor{Name: "a\nb"}, Of: "queue", What: changekind.Refused},
			"by":    {Actor: audit.Actor{Note: strings.Repeat("n", 200)}, Of: "queue", What: changekind.Refused},
			"of":    {Of: "a b", What: changekind.Refused},
			"what":  {Of: "queue", What: "what?"},
			"times": {Of: "queue", What: changekind.Refused, Times: -1},
		} {
			r.refusesField(field, r.e.Record(r.ctx, bad))
		}
		if n := len(r.auditOf(0)); n != 3 {
			r.Errorf("%d entries", n)
		}
	}},
	{"each partition has its own log, which does not verify as another's", func(r *rig) {
		for _, q := range []string{"a", "b", "c", "d", "e", "f"} {
			r.queue(q, "1/s")
			r.putDocument("app", q, `1`)
		}
		for p := range r.e.Partitions() {
			records := r.auditRecords(p)
			if len(records) == 0 {
				continue
			}
			other := audit.Verifier{Partition: p + 1}
			var broken *audit.Break
			if err := other.Add(records); !errors.As(err, &broken) || broken.Fault != audit.Foreign {
				r.Errorf("the log of partition %d as that of another: %v", p, err)
			}
		}
	}},
	{"the log is read in pages, forward and backward, from any number", func(r *rig) {
		const n = 9
		for i := range n {
			r.putDocument("app", "a", fmt.Sprint(i))
		}
		for _, tt := range []struct {
			from  int64
			back  bool
			limit int
			want  string
		}{
			{0, false, 3, "[1 2 3]"},
			{0, true, 3, "[9 8 7]"},
			{4, false, 3, "[4 5 6]"},
			{4, true, 3, "[4 3 2]"},
			{4, true, audit.MaxPage, "[4 3 2 1]"},
			{8, false, audit.MaxPage, "[8 9]"},
			{10, false, 3, "[]"},
			{99, true, 2, "[9 8]"},
			{1, true, 3, "[1]"},
		} {
			page, err := r.e.Audit(r.ctx, audit.Request{From: tt.from, Back: tt.back, Limit: tt.limit})
			r.check(err)
			got := []int64{}
			for i := range page.Records {
				e, err := page.Records[i].Entry()
				r.check(err)
				got = append(got, e.Number)
			}
			if fmt.Sprint(got) != tt.want || page.Newest != n || page.Oldest != 1 || len(page.Chains) != 1 {
				r.Errorf("%+v: %v, want %s; from %d to %d", tt, got, tt.want, page.Oldest, page.Newest)
			}
		}
		for field, bad := range map[string]audit.Request{
			"partition": {Partition: r.e.Partitions(), Limit: 1}, "from": {From: -1, Limit: 1},
			"limit": {Limit: audit.MaxPage + 1},
		} {
			_, err := r.e.Audit(r.ctx, bad)
			r.refusesField(field, err)
		}
		_, err := r.e.Audit(r.ctx, audit.Request{Partition: -1, Limit: 1})
		r.refusesField("partition", err)
		_, err = r.e.Audit(r.ctx, audit.Request{})
		r.refusesField("limit", err)
	}},
	{"old entries expire, and the rest verifies", func(r *rig) {
		for i := range 20 {
			r.putDocument("app", "a", fmt.Sprint(i))
			r.clock.Advance(time.Hour)
		}
		r.clock.Advance(queue.KeepChanges - 10*time.Hour)
		r.putDocument("app", "a", `"later"`)
		all := r.auditOf(0)
		page, err := r.e.Audit(r.ctx, audit.Request{Limit: 1})
		r.check(err)
		first := all[0].Number
		if first != 12 || page.Oldest != first || page.Newest != 21 || len(all) != 10 || page.Dropped() != 0 {
			r.Errorf("%d entries from %d, the oldest is %d", len(all), first, page.Oldest)
		}
		r.clock.Advance(2 * queue.KeepChanges)
		r.putDocument("app", "a", `"much later"`)
		if all = r.auditOf(0); len(all) != 1 || all[0].Number != 22 || all[0].Previous == "" {
			r.Errorf("%+v", all)
		}
	}},
	{"the chains verify after concurrent changes", func(r *rig) {
		const each = 10
		queues := []string{"a", "b", "c", "d"}
		r.crowd(len(queues), func(w int) int {
			ctx := audit.WithActor(r.ctx, audit.Actor{Name: fmt.Sprint("token:", w)})
			for i := range each {
				if _, err := r.e.Put(ctx, spec(queues[w], fmt.Sprint(i+1, "/s")), queue.AnyRevision); err != nil {
					r.Error(err)
				}
				if _, err := r.e.PutDocument(ctx, doc("app", queues[w], fmt.Sprint(i)), -1); err != nil {
					r.Error(err)
				}
			}
			return 0
		})
		counts := map[string]int{}
		for p := range r.e.Partitions() {
			for _, e := range r.auditOf(p) {
				w := slices.Index(queues, e.Name)
				if counts[e.Of+e.Name]++; e.Actor.Name != fmt.Sprint("token:", w) {
					r.Errorf("%+v", e)
				}
			}
		}
		for _, q := range queues {
			if counts["queue"+q] != each || counts["app"+q] != each {
				r.Errorf("%v", counts)
			}
		}
	}},
}
