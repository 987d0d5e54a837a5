package queuetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
	"github.com/penstock/penstock/queue/rules"
)

// changes returns the latest changes of a queue, at most limit (0: all).
func (r *rig) changes(queueName string, limit int) []queue.Change {
	r.Helper()
	return r.record(
		queue.ChangesRequest{Subject: queue.OfQueue, Name: queueName, Limit: min(limit, queue.MaxChanges)}, limit,
	)
}

// record reads a history to its end, or until it has most changes.
func (r *rig) record(ask queue.ChangesRequest, most int) (all []queue.Change) {
	r.Helper()
	for {
		page, err := r.e.Changes(r.ctx, ask)
		if err != nil {
			r.Fatalf("changes of %s %s: %v", ask.Subject, ask.Name, err)
		}
		all = append(all, page.Changes...)
		if ask.Before = page.Next; ask.Before == 0 || len(all) >= most {
			return all
		}
	}
}

// recorded compares a queue's history, newest first: kind, actor, reason, and the rates before and after.
func (r *rig) recorded(queueName string, want ...string) {
	r.Helper()
	var got []string
	rate := func(s *queue.Spec) string {
		if s == nil {
			return "-"
		}
		return s.Rate.String()
	}
	for _, c := range r.changes(queueName, queue.MaxChanges) {
		text := fmt.Sprintf("%s by %s", c.What, c.By+c.Note)
		if c.Before != nil || c.After != nil {
			text += fmt.Sprintf(": %s to %s", rate(c.Before), rate(c.After))
		}
		if c.Jobs > 0 {
			text += fmt.Sprintf(" %d", c.Jobs)
		}
		if len(c.IDs) > 0 {
			text += " " + strings.Join(c.IDs, ",")
		}
		if c.Detail != "" {
			text += " (" + c.Detail + ")"
		}
		if c.Reason != "" {
			text += ": " + c.Reason
		}
		got = append(got, text)
	}
	if !reflect.DeepEqual(got, want) {
		r.Errorf("%s:\n got %s\nwant %s", queueName, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// putBy puts a queue as the given actor.
func (r *rig) putBy(by string, s queue.Spec) queue.PutResult {
	r.Helper()
	res, err := r.e.Put(audit.WithNote(r.ctx, by), s, queue.AnyRevision)
	r.check(err)
	return res
}

var changeRules = []rule{
	{"every change is recorded: when, who, what, before and after", func(r *rig) {
		first := spec("q", "1/s", func(s *queue.Spec) {
			s.Deliver = json.RawMessage(`{"http":{"url":"http://a","headers":{"Authorization":"secret"}}}`)
		})
		second := spec("q", "2/s")
		t0 := r.clock.Now()
		one := r.putBy("ann@desk", first).Revision
		r.clock.Advance(time.Second)
		r.putBy("nobody", first) // changes nothing
		two := r.putBy("", second).Revision
		r.clock.Advance(time.Second)
		r.pauses("q", t0.Add(time.Hour), "maintenance")
		r.pauses("q", t0.Add(time.Hour), "maintenance")
		r.clock.Advance(time.Second)
		r.check(r.e.Resume(audit.WithNote(r.ctx, "bob"), "q"))
		r.check(r.e.Resume(audit.WithNote(r.ctx, "bob"), "q"))
		carl := audit.Actor{Name: "token:4f1c", App: "acme", Note: "carl"}
		r.check(r.e.Delete(audit.WithActor(r.ctx, carl), "q", two, false))
		at := func(d time.Duration) time.Time { return t0.Add(d).Time() }
		want := []queue.Change{
			{
				At: at(3 * time.Second), By: "token:4f1c", Note: "carl", What: changekind.Deleted, Revision: two, Was: two,
				Before: &second,
			},
			{At: at(3 * time.Second), Note: "bob", What: changekind.Resumed, Revision: two, Was: two},
			{
				At: at(2 * time.Second), Note: "ann@desk", What: changekind.Paused, Revision: two, Was: two,
				Reason: "maintenance", Until: at(time.Hour),
			},
			{At: at(time.Second), What: changekind.Changed, Revision: two, Was: one, Before: &first, After: &second},
			{At: at(0), Note: "ann@desk", What: changekind.Created, Revision: one, After: &first},
		}
		got := r.changes("q", queue.MaxChanges)
		if len(got) != len(want) {
			r.Fatalf("got %+v", got)
		}
		for i := range got {
			same := func(a, b *queue.Spec) bool { return (a == nil) == (b == nil) && (a == nil || a.Equal(*b)) }
			g, w := got[i], want[i]
			specs := same(g.Before, w.Before) && same(g.After, w.After)
			g.Before, g.After, w.Before, w.After = nil, nil, nil, nil
			instants := g.At.Equal(w.At) && g.Last.Equal(w.At) && g.Until.Equal(w.Until) &&
				g.Number == int64(len(want)-i)
			g.At, g.Last, g.Until, g.Number, w.At, w.Until = time.Time{}, time.Time{}, time.Time{}, 0, time.Time{},
				time.Time{}
			if !specs || !instants || !reflect.DeepEqual(g, w) {
				r.Errorf("%d: got %+v\nwant %+v", i, got[i], want[i])
			}
		}
		if some := r.changes("q", 2); len(some) != 2 || some[1].What != changekind.Resumed {
			r.Errorf("the latest two: %+v", some)
		}
	}},
	{"a refused change is not recorded", func(r *rig) {
		q := r.queue("q", "1/s")
		r.accept(q, "a")
		_, err := r.e.Put(r.ctx, spec(q, "2/s"), 0)
		r.refuses(err, queue.ErrRevision)
		r.refuses(r.e.Delete(r.ctx, q, queue.AnyRevision, false), queue.ErrNotEmpty)
		r.refusesField("until", r.e.Pause(r.ctx, q, queue.Pause{Until: r.clock.Now().Time()}))
		r.recorded(q, "created by : - to 1/s")
	}},
	{"a pause that ends by itself is recorded once, at that instant", func(r *rig) {
		for _, tt := range []struct {
			what  string
			do    func(q string)
			after []string
		}{
			{"nobody", func(string) {}, nil},
			{"a drainer", func(q string) { r.reserve(q, 1) }, nil},
			{"a resume", func(q string) { r.check(r.e.Resume(r.ctx, q)) }, nil},
			{"a put", func(q string) { r.queue(q, "2/s") }, []string{"changed by : 1/s to 2/s"}},
			{"a pause", func(q string) { r.pauses(q, 0, "again") }, []string{"paused by ann@desk: again"}},
			{"a delete", func(q string) { r.delete(q) }, []string{"deleted by : 1/s to -"}},
		} {
			q := r.queue(strings.ReplaceAll(tt.what, " ", ""), "1/s")
			t0 := r.clock.Now()
			r.pauses(q, t0.Add(time.Minute), "x")
			r.clock.Advance(time.Hour)
			tt.do(q)
			want := append(
				tt.after, "resumed by : "+changelog.LapseReason, "paused by ann@desk: x", "created by : - to 1/s",
			)
			r.recorded(q, want...)
			r.recorded(q, want...)
			if at := r.changes(q, 9)[len(tt.after)].At; instantOf(at) != t0.Add(time.Minute) {
				r.Errorf("%s: resumed at %v", tt.what, at)
			}
		}
	}},
	{"a name without changes has an empty history", func(r *rig) {
		r.queue("q.a", "1/s")
		r.putRule(countingRule("q.r", 1))
		for _, name := range []string{"q", "q.r", "nobody", "not a name", "", "q.a.b", "q.a\x00", "q\x00a"} {
			_, err := r.e.Changes(r.ctx, queue.ChangesRequest{Subject: queue.OfQueue, Name: name, Limit: 9})
			r.refuses(err, queue.ErrUnknownQueue)
			_, err = r.e.History(r.ctx, name)
			r.refuses(err, queue.ErrUnknownQueue)
			_, err = r.e.Rollback(r.ctx, name, 0, queue.AnyRevision)
			r.refuses(err, queue.ErrUnknownQueue)
		}
		_, err := r.e.Changes(r.ctx, queue.ChangesRequest{Subject: queue.OfRule, Name: "q.a", Limit: 9})
		r.refuses(err, rules.ErrUnknown)
		for field, ask := range map[string]queue.ChangesRequest{
			"limit":   {Subject: queue.OfQueue, Name: "q.a"},
			"before":  {Subject: queue.OfQueue, Name: "q.a", Limit: 1, Before: -1},
			"subject": {Name: "q.a", Limit: 1},
			"what.1":  {Subject: queue.OfQueue, Name: "q.a", Limit: 1, What: []changekind.Kind{changekind.Paused, "x"}},
		} {
			_, err := r.e.Changes(r.ctx, ask)
			r.refusesField(field, err)
		}
		_, err = r.e.Changes(r.ctx, queue.ChangesRequest{
			Subject: queue.OfQueue, Name: "q.a", Limit: queue.MaxChanges + 1,
		})
		r.refusesField("limit", err)
	}},
}

var rollbackRules = []rule{
	{"the last specs are kept, whatever else happens", func(r *rig) {
		one := r.queue1("q", "1/s")
		r.queue1("q", "2/s")
		for range 60 {
			r.pauses("q", 0, "flood")
			r.check(r.e.Resume(r.ctx, "q"))
		}
		_, err := r.e.Rollback(r.ctx, "q", one, queue.AnyRevision)
		r.check(err)
		r.rate("q", "1/s")
	}},
	{"a rollback restores the spec before the last change, or that of a revision", func(r *rig) {
		one := r.queue1("q", "1/s")
		two := r.queue1("q", "2/s")
		three := r.queue1("q", "3/s")
		res, err := r.e.Rollback(audit.WithNote(r.ctx, "ann"), "q", 0, queue.AnyRevision)
		if err != nil || !res.Changed || res.Created || res.Revision <= three {
			r.Fatalf("%+v, %v", res, err)
		}
		r.rate("q", "2/s")
		r.recorded(
			"q", "rolled_back by ann: 3/s to 2/s", "changed by : 2/s to 3/s", "changed by : 1/s to 2/s",
			"created by : - to 1/s",
		)
		_, err = r.e.Rollback(r.ctx, "q", one, res.Revision)
		r.check(err)
		r.rate("q", "1/s")
		_, err = r.e.Rollback(r.ctx, "q", 0, queue.AnyRevision)
		r.check(err)
		r.rate("q", "2/s")
		if again, err := r.e.Rollback(r.ctx, "q", two, queue.AnyRevision); err != nil || again.Changed {
			r.Errorf("to the same: %+v, %v", again, err)
		}
	}},
	{"a rollback makes a deleted queue again", func(r *rig) {
		r.queue("q", "1/s")
		two := r.queue1("q", "2/s")
		r.delete("q")
		if res, err := r.e.Rollback(r.ctx, "q", 0, 0); err != nil || !res.Created || res.Revision <= two {
			r.Fatalf("%+v, %v", res, err)
		}
		r.rate("q", "2/s")
		r.recorded(
			"q", "rolled_back by : - to 2/s", "deleted by : 2/s to -", "changed by : 1/s to 2/s",
			"created by : - to 1/s",
		)
	}},
	{"a rollback needs the expected revision, and a known one", func(r *rig) {
		one := r.queue1("q", "1/s")
		var unknown *queue.UnknownRevision
		if _, err := r.e.Rollback(r.ctx, "q", 0, queue.AnyRevision); !errors.As(err, &unknown) ||
			!reflect.DeepEqual(unknown.Known, []int64{one}) {
			r.Errorf("got %v", err)
		}
		two := r.queue1("q", "2/s")
		for _, expect := range []int64{0, one, two + 1} {
			res, err := r.e.Rollback(r.ctx, "q", 0, expect)
			r.refuses(err, queue.ErrRevision)
			if res.Revision != two {
				r.Errorf("it is at %d, not %d", two, res.Revision)
			}
		}
		for _, to := range []int64{-1, two + 1, 1 << 60} {
			if _, err := r.e.Rollback(r.ctx, "q", to, queue.AnyRevision); !errors.As(err, &unknown) ||
				!reflect.DeepEqual(unknown.Known, []int64{two, one}) {
				r.Errorf("to %d: %v", to, err)
			}
		}
		r.rate("q", "2/s")
	}},
}

// queue1 puts a queue and returns its revision.
func (r *rig) queue1(name, rate string) int64 {
	r.Helper()
	return r.put(spec(name, rate)).Revision
}

func (r *rig) rate(queueName, want string) {
	r.Helper()
	rate, err := leaky.ParseRate(want)
	r.check(err)
	if i := r.info(queueName); i.Spec.Rate != rate {
		r.Errorf("%s has the rate %v, want %s", queueName, i.Spec.Rate, want)
	}
}
