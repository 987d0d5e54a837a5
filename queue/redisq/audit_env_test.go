package redisq_test

import (
	"context"
	"testing"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
)

// audited is a store of one partition whose audit log is looked at.
func audited(t *testing.T, o redisq.Options) (*env, *redistest.Server) {
	t.Helper()
	s := redistest.New(t, redistest.Options{})
	o.Init, o.Partitions = true, 1
	return open(t, s.Client(), o), s
}

// audit reads all of the log of a partition, and checks that it is one chain.
func (v *env) audit(partition int) (all []audit.Entry, records []audit.Record) {
	v.t.Helper()
	r := audit.Request{Partition: partition, Limit: audit.MaxPage}
	var page audit.Page
	for {
		var err error
		if page, err = v.e.Audit(v.ctx, r); err != nil {
			v.t.Fatal(err)
		}
		for _, record := range page.Records {
			e, err := record.Entry()
			if err != nil {
				v.t.Fatalf("%s: %v", record.Text, err)
			}
			all, records = append(all, e), append(records, record)
		}
		if len(page.Records) < r.Limit {
			break
		}
		r.From = all[len(all)-1].Number + 1
	}
	last := map[audit.Budget]audit.Link{}
	for i, e := range all {
		record := records[i]
		if record.Digest != audit.DigestOf(record.Text) {
			v.t.Errorf("entry %d has the digest %s, want %s", e.Number, record.Digest, audit.DigestOf(record.Text))
		}
		alone := audit.Verifier{Partition: partition, Number: e.Number - 1}
		if e.Follows > 0 {
			alone.Links = map[audit.Budget]audit.Link{e.Budget: {Number: e.Follows, Digest: audit.Digest(e.Previous)}}
		}
		if err := alone.Add(records[i : i+1]); err != nil {
			v.t.Error(err)
		}
		if i > 0 && e.At < all[i-1].At {
			v.t.Errorf("entry %d does not follow %d: %s", e.Number, all[i-1].Number, record.Text)
		}
		if before, ok := last[e.Budget]; ok && (e.Follows != before.Number || audit.Digest(e.Previous) != before.Digest) {
			v.t.Errorf("entry %d does not follow %d: %s", e.Number, before.Number, record.Text)
		}
		last[e.Budget] = audit.Link{Number: e.Number, Digest: record.Digest}
	}
	if n := len(all); n > 0 && (page.Newest != all[n-1].Number || page.Oldest != all[0].Number) {
		v.t.Errorf("from %d to %d; the entries are from %d to %d", page.Oldest, page.Newest, all[0].Number,
			all[n-1].Number)
	}
	for _, c := range page.Chains {
		if got := (audit.Link{Number: c.Newest, Digest: c.Head}); got != last[c.Budget] {
			v.t.Errorf("the chain of %s ends at %+v, its entries at %+v", c.Budget, got, last[c.Budget])
		}
	}
	return all, records
}

// someone is an Actor of whom all is known, with what JSON must escape.
var someone = audit.Actor{
	Name: "token:4f1c", App: "acme", Token: "4f1c", Address: "[::1]:80", Request: `"r"\1`, Operation: "put/Queue",
	Note: "<ümit> & söhne 😀\u2027",
}

// end appends a job and ends its lease by a verdict, unless that was done before. Others that wait are delivered.
func (v *env) end(i int, verdict queue.Verdict) {
	v.t.Helper()
	v.append(job("email", i))
	for _, j := range v.reserve("email").Jobs {
		s := deliver(j)
		if j.ID == job("email", i).ID {
			s[0].Verdict = verdict
		}
		v.settle(s...)
	}
}

// mutations are those that write an entry, in an order in which each has something to do.
var mutations = []struct {
	what string
	do   func(v *env, ctx context.Context) error
}{
	{"rule created", func(v *env, ctx context.Context) error {
		_, err := v.e.PutRule(ctx, windows(5), 0)
		return err
	}},
	{"queue created", func(v *env, ctx context.Context) error {
		_, err := v.e.Put(ctx, queue.Spec{Name: "email", Rate: leaky.Unlimited}, 0)
		return err
	}},
	{"queue changed", func(v *env, ctx context.Context) error {
		_, err := v.e.Put(ctx, queue.Spec{Name: "email", Rate: leaky.PerSecond(1000)}, queue.AnyRevision)
		return err
	}},
	{"rule changed", func(v *env, ctx context.Context) error {
		_, err := v.e.PutRule(ctx, windows(6), queue.AnyRevision)
		return err
	}},
	{"queue rolled_back", func(v *env, ctx context.Context) error {
		_, err := v.e.Rollback(ctx, "email", 0, queue.AnyRevision)
		return err
	}},
	{"rule refunded", func(v *env, ctx context.Context) error {
		_, err := v.e.Take(audit.WithActor(ctx, someone), "r", []rules.Take{{Op: rules.TakeBack, Key: "k"}})
		return err
	}},
	{"rule reset", func(v *env, ctx context.Context) error { return v.e.ResetRule(ctx, "r") }},
	{"queue paused", func(v *env, ctx context.Context) error {
		return v.e.Pause(ctx, "email", queue.Pause{Reason: "say \"why\",\tor 1/2"})
	}},
	{"queue resumed", func(v *env, ctx context.Context) error { return v.e.Resume(ctx, "email") }},
	{"queue cancelled", func(v *env, ctx context.Context) error {
		v.append(job("email", 1), job("email", 2), job("email", 3))
		_, err := v.e.Cancel(ctx, "email", "job-0001")
		return err
	}},
	{"queue purged", func(v *env, ctx context.Context) error {
		_, err := v.e.Purge(ctx, queue.PurgeRequest{Queue: "email", State: queue.Waiting, Limit: 10})
		return err
	}},
	{"queue replayed", func(v *env, ctx context.Context) error {
		v.end(4, queue.Bury)
		_, err := v.e.Replay(ctx, "email", []string{"job-0004"})
		return err
	}},
	{"queue forgotten", func(v *env, ctx context.Context) error {
		v.end(5, queue.Bury)
		_, err := v.e.Forget(ctx, "email", []string{"job-0005"})
		return err
	}},
	{"queue decided", func(v *env, ctx context.Context) error {
		v.end(6, queue.Hold)
		_, err := v.e.Decide(ctx, "email", []string{"job-0006"}, queue.Deliver, "seen")
		return err
	}},
	{"queue deleted", func(v *env, ctx context.Context) error {
		return v.e.Delete(ctx, "email", queue.AnyRevision, true)
	}},
	{"rule deleted", func(v *env, ctx context.Context) error { return v.e.DeleteRule(ctx, "r", queue.AnyRevision) }},
	{"app created", func(v *env, ctx context.Context) error {
		_, err := v.e.PutDocument(ctx, document.Document{Kind: "app", Name: "acme", Text: []byte(`{"a":1}`)}, 0)
		return err
	}},
	{"app changed", func(v *env, ctx context.Context) error {
		_, err := v.e.PutDocument(ctx, document.Document{Kind: "app", Name: "acme", Text: []byte(`{"a":2}`)},
			queue.AnyRevision)
		return err
	}},
	{"app deleted", func(v *env, ctx context.Context) error {
		_, err := v.e.PutDocument(ctx, document.Document{Kind: "app", Name: "acme"}, queue.AnyRevision)
		return err
	}},
	{"token refused", func(v *env, ctx context.Context) error {
		return v.e.Record(ctx, audit.Entry{
			Actor: someone, Of: "token", Name: "4f1c", What: changekind.Refused, Refused: "forbidden", Times: 1 << 50,
			Detail: "d", Reason: "r",
		})
	}},
}
