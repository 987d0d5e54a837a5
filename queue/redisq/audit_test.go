package redisq_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
)

// Each change writes an entry, and Go reads in it what was written.
func TestEachChangeIsAudited(t *testing.T) {
	v, _ := audited(t, redisq.Options{})
	ctx := audit.WithActor(v.ctx, someone)
	for i, m := range mutations {
		if err := m.do(v, ctx); err != nil {
			t.Fatalf("%s: %v", m.what, err)
		}
		all, records := v.audit(0)
		if len(all) != i+1 {
			t.Fatalf("%s: %d entries, want %d", m.what, len(all), i+1)
		}
		e := all[i]
		if got := e.Of + " " + string(e.What); got != m.what || e.Actor != someone || e.Number != int64(i+1) {
			t.Errorf("%s: %s", m.what, records[i].Text)
		}
		before, after := e.What != changekind.Created, e.What != changekind.Deleted
		if !e.What.OfSpecs() {
			before, after = false, false
		}
		if (records[i].Before != nil) != before || (records[i].After != nil) != after {
			t.Errorf("%s: before %q, after %q", m.what, records[i].Before, records[i].After)
		}
	}
	all, records := v.audit(0)
	find := func(what string) (audit.Entry, audit.Record) {
		i := slices.IndexFunc(mutations, func(m struct {
			what string
			do   func(v *env, ctx context.Context) error
		},
		) bool {
			return m.what == what
		})
		return all[i], records[i]
	}
	if e, _ := find("queue paused"); e.Reason != "say \"why\",\tor 1/2" {
		t.Errorf("paused: %+v", e)
	}
	if e, _ := find("queue cancelled"); e.Jobs != 1 || !slices.Equal(e.IDs, []string{"job-0001"}) {
		t.Errorf("cancelled: %+v", e)
	}
	if e, _ := find("queue purged"); e.Jobs != 2 || e.IDs != nil || e.Detail != "waiting" {
		t.Errorf("purged: %+v", e)
	}
	if e, r := find("app changed"); string(r.Before) != `{"a":1}` || string(r.After) != `{"a":2}` || e.Was == 0 ||
		e.Revision <= e.Was {
		t.Errorf("app: %+v, %q, %q", e, r.Before, r.After)
	}
	if e, _ := find("token refused"); e.Refused != "forbidden" || e.Times != 1<<50 || e.Detail != "d" ||
		e.Reason != "r" || e.Name != "4f1c" {
		t.Errorf("refused: %+v", e)
	}
}

// What the log shows is masked; what the queue has is not. A key of no meaning to it is what Mask was asked for.
func TestAuditShowsNoSecret(t *testing.T) {
	const secret = "s3cret"
	v, s := audited(t, redisq.Options{Mask: func(kind string, text []byte) []byte {
		if kind != "queue" && kind != "app" {
			return text
		}
		return bytes.ReplaceAll(text, []byte(secret), []byte("***"))
	}})
	for i := range 3 {
		v.put("email", leaky.PerSecond(int64(i)+1), func(s *queue.Spec) { s.Deliver = []byte(`{"x":"` + secret + `"}`) })
		d := document.Document{Kind: "app", Name: "acme", Text: fmt.Appendf(nil, `{"n":%d,"p":"%s"}`, i, secret)}
		if _, err := v.e.PutDocument(v.ctx, d, queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := v.e.PutDocument(v.ctx, document.Document{Kind: "app", Name: "acme"}, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	if err := v.e.Delete(v.ctx, "email", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	_, records := v.audit(0)
	shown := 0
	for _, r := range records {
		for _, text := range [][]byte{r.Before, r.After} {
			shown += bytes.Count(text, []byte("***"))
		}
	}
	if len(records) != 8 || shown != 12 {
		t.Errorf("%d entries, in which %d secrets are masked; want 8 and 12", len(records), shown)
	}
	if all, err := s.Client().XRange(v.ctx, "ps{0}J:nobody", "-", "+").Result(); err != nil ||
		strings.Contains(fmt.Sprint(all), secret) {
		t.Errorf("the log has the secret, or %v", err)
	}
	h, err := v.e.History(v.ctx, "email")
	if err != nil || len(h.Specs) != 3 || !bytes.Contains(h.Specs[0].Spec.Deliver, []byte(secret)) {
		t.Errorf("%+v, %v", h.Specs, err)
	}
}

// A purge in many calls is one change, and an entry for each call.
func TestAuditOfManyCalls(t *testing.T) {
	v, _ := audited(t, redisq.Options{})
	v.put("email", leaky.Unlimited, nil)
	for i := range 10 {
		v.append(job("email", i))
	}
	r := queue.PurgeRequest{Queue: "email", State: queue.Waiting, Limit: 3}
	calls := 0
	for more := true; more; calls++ {
		p, err := v.e.Purge(v.ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		r.After, more = p.Next, p.Next != ""
	}
	all, _ := v.audit(0)
	jobs := int64(0)
	for _, e := range all[1:] {
		jobs += e.Jobs
	}
	changes, err := v.e.Changes(v.ctx, queue.ChangesRequest{Subject: queue.OfQueue, Name: "email", Limit: 10})
	if len(all) != 1+calls || calls < 4 || jobs != 10 || err != nil || len(changes.Changes) != 2 {
		t.Errorf("%d entries of %d calls and %d jobs, %d changes, %v", len(all), calls, jobs, len(changes.Changes), err)
	}
}

// Entries go when they are older than changes are kept, or are more than there may be; the chain goes on.
func TestAuditIsTrimmed(t *testing.T) {
	v, s, at := manual(t)
	put := func(i int) {
		v.put("email", leaky.PerSecond(int64(i)+1), nil)
	}
	for i := range 10 {
		put(i)
		*at = at.Add(time.Second)
	}
	*at = at.Add(queue.KeepChanges - 5*time.Second)
	put(10)
	all, _ := v.audit(0)
	if len(all) < 4 || len(all) > 7 || all[len(all)-1].Number != 11 {
		t.Errorf("%d entries are kept, from %d", len(all), all[0].Number)
	}
	dropped := func() int64 {
		page, err := v.e.Audit(v.ctx, audit.Request{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		return page.Dropped()
	}
	if n := dropped(); n != 0 {
		t.Errorf("%d were dropped before their time", n)
	}
	there := all[0].Number
	const partitions = audit.NobodyBytes / 8192 // so that one may have 8 KiB
	if err := s.Client().HSet(v.ctx, "ps{0}", "partitions", partitions).Err(); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		put(20 + i)
	}
	all, records := v.audit(0)
	bytes := 0
	for _, r := range records {
		bytes += len(r.Text) + len(r.Before) + len(r.After)
	}
	if all[len(all)-1].Number != 111 || bytes > 8192 || bytes < 2048 {
		t.Errorf("%d bytes of %d entries up to %d are kept", bytes, len(all), all[len(all)-1].Number)
	}
	if n := dropped(); n != all[0].Number-there {
		t.Errorf("%d were dropped before their time, of those from %d to %d", n, there, all[0].Number-1)
	}
}

// A log of large texts is read in calls that take a short time each, back and forth.
func TestAuditPages(t *testing.T) {
	v, _ := audited(t, redisq.Options{})
	text := func(i int) []byte {
		return fmt.Appendf(nil, `{"n":%d,"x":"%s"}`, i, strings.Repeat("x", audit.MaxTextBytes-20))
	}
	for i := range 300 {
		if _, err := v.e.PutDocument(v.ctx, document.Document{Kind: "app", Name: "acme", Text: text(i)},
			queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	if all, _ := v.audit(0); len(all) != 300 {
		t.Fatalf("%d entries", len(all))
	}
	for _, c := range []struct {
		r           audit.Request
		first, last int64
	}{
		{audit.Request{Limit: 250}, 1, 250},
		{audit.Request{Limit: 250, Back: true}, 300, 51},
		{audit.Request{Limit: 3, From: 7}, 7, 9},
		{audit.Request{Limit: 3, From: 7, Back: true}, 7, 5},
		{audit.Request{Limit: 30, From: 7, Back: true}, 7, 1},
		{audit.Request{Limit: 150, From: 7}, 7, 156},
		{audit.Request{Limit: 150, From: 290, Back: true}, 290, 141},
		{audit.Request{Limit: 30, From: 299}, 299, 300},
	} {
		page, err := v.e.Audit(v.ctx, c.r)
		if err != nil {
			t.Fatal(err)
		}
		first, err1 := page.Records[0].Entry()
		last, err2 := page.Records[len(page.Records)-1].Entry()
		if err1 != nil || err2 != nil || first.Number != c.first || last.Number != c.last ||
			len(page.Records) != int(max(last.Number-first.Number, first.Number-last.Number))+1 {
			t.Errorf("%+v: %d entries from %d to %d", c.r, len(page.Records), first.Number, last.Number)
		}
	}
	if page, err := v.e.Audit(v.ctx, audit.Request{Limit: 3, From: 301}); err != nil || len(page.Records) != 0 {
		t.Errorf("behind the end: %d entries, %v", len(page.Records), err)
	}
}

// What moves jobs asks the audit log nothing.
func TestJobsAreNotAudited(t *testing.T) {
	v, s := audited(t, redisq.Options{})
	v.rule(windows(0))
	v.put("email", leaky.Unlimited, func(s *queue.Spec) { s.Lanes.Capacity = 100 })
	if err := s.Client().ConfigResetStat(v.ctx).Err(); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		v.append(job("email", i))
		v.settle(deliver(v.reserve("email").Jobs...)...)
		if _, err := v.e.Take(v.ctx, "r", []rules.Take{{Key: "k"}}); err != nil {
			t.Fatal(err)
		}
	}
	stats := s.Client().Info(v.ctx, "commandstats").Val()
	if asked := regexp.MustCompile(`cmdstat_(?:x\w+|lindex|lpush)\b`).FindAllString(stats, -1); asked != nil {
		t.Errorf("asked %v", asked)
	}
}
