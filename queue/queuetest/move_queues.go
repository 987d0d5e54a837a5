package queuetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/changelog"
)

// importQueues imports queues without jobs and returns the names of those that are imported.
func (r *rig) importQueues(queues ...move.Queue) string {
	r.Helper()
	done, err := r.mover().ImportQueues(r.ctx, queues, mark)
	if err != nil || len(done) != len(queues) {
		r.Fatalf("%d answers about %d queues: %v", len(done), len(queues), err)
	}
	var names []string
	for i, is := range done {
		if is {
			names = append(names, queues[i].Spec.Name)
		}
	}
	return strings.Join(names, " ")
}

// moved is a queue of an export, without jobs.
func moved(name string, change ...func(*queue.Spec)) move.Queue {
	return move.Queue{Spec: spec(name, "10/s", change...), Revision: 1, MaxCost: 1}
}

// listed returns the names of the queues in entries about imports, and checks the digests of their specs.
func (r *rig) listed(records []audit.Record) (names []string) {
	r.Helper()
	for i := range records {
		e, err := records[i].Entry()
		r.check(err)
		list, err := e.List(records[i].After)
		r.check(err)
		if len(list) == 0 || len(list) > move.MaxStep || e.LeftOut != nil ||
			e.Detail != changelog.ArchiveDetail(mark) || e.Of != string(queue.OfQueue) || e.What != changekind.Imported {
			r.Errorf("%d queues in %+v", len(list), e)
		}
		for _, l := range list {
			names = append(names, l.Name)
			info := r.info(l.Name)
			if want := audit.DigestOf(r.specText(info.Spec)); l.Spec != want {
				r.Errorf("%s has the digest %s, want %s", l.Name, l.Spec, want)
			}
			if info.Revision != e.Revision {
				r.Errorf("%s is at revision %d, the entry at %d", l.Name, info.Revision, e.Revision)
			}
		}
	}
	return names
}

var moveQueueRules = []rule{
	{"queues without jobs are imported together, as they were", func(r *rig) {
		for _, name := range []string{"a", "a.b", "a.c"} {
			r.queue(name, "10/s")
		}
		r.accept("a.b", "one")
		r.deliver(r.grant("a.b", 1, "one")...)
		r.check(r.e.Pause(r.ctx, "a.c", queue.Pause{Reason: "night", Until: r.clock.Now().Add(time.Hour).Time()}))
		r.queue("limited", "1/s", func(s *queue.Spec) {
			s.Limits = []queue.Limit{{Quota: queue.Quota{Max: 3, Per: "h"}}, {Rate: leaky.PerSecond(1), Burst: 2}}
		})
		r.accept("limited", "x")
		r.fail(0, r.grant("limited", 1, "x")...)
		r.clock.Advance(time.Minute)
		r.deliver(r.grant("limited", 1, "x")...)
		r.queue("laned", "unlimited", everyLane(queue.LaneRule{Rate: leaky.PerSecond(1)}))
		r.queue("pulled", "10/s", pulled)
		var before []exportedQueue
		var queues []move.Queue
		for _, name := range []string{"a", "a.b", "a.c", "laned", "limited", "pulled"} {
			m := r.export(name)
			m.jobs = nil
			before, queues = append(before, m), append(queues, m.queue)
		}
		for _, m := range slices.Backward(before) {
			r.erase(m.queue.Spec.Name)
		}
		if got := r.importQueues(queues...); got != "a a.b a.c laned limited pulled" {
			r.Fatalf("imported %s", got)
		}
		for _, m := range before {
			is := r.export(m.queue.Spec.Name)
			r.sameExport(is, m)
			if !slices.Equal(is.queue.Limits, m.queue.Limits) || !is.queue.Spec.Equal(m.queue.Spec) ||
				is.queue.Open || is.queue.Import != mark || is.queue.Revision < m.queue.Revision {
				r.Errorf("got %+v, want %+v", is.queue, m.queue)
			}
		}
		if g := r.info("a").Group; g.Children != 2 || g.Members != 0 {
			r.Errorf("the group is %+v", g)
		}
		r.acceptJobs(jobsOfLane("k", "laned", "l1", "l2")...)
		if got := r.reserve("laned", 9); len(got) != 0 { // nothing shows when its lanes last departed
			r.Errorf("%v departed at once", ids(got))
		}
		r.delete("laned")
		r.accept("a.b", "b1")
		r.accept("a.c", "c1")
		r.deliver(r.grant("a", 9, "b1")...)
		r.clock.Advance(time.Hour) // the pause has ended
		r.deliver(r.grant("a", 9, "c1")...)
	}},
	{"an import of queues is one entry that lists them, and each history begins with it", func(r *rig) {
		// They have one partition, and their list is longer than other texts in the log may be.
		queues, p := []move.Queue{moved("ses")}, r.partition("ses")
		for i := 0; len(queues) < move.MaxStep; i++ {
			if name := fmt.Sprintf("ses-%03d", i); r.partition(name) == p {
				queues = append(queues, moved(name))
			}
		}
		queues[0].Revision = 1 << 50 // as if its store's clock had run ahead
		_, records := r.audits(p, 1, func() {
			if got := strings.Fields(r.importQueues(queues...)); len(got) != len(queues) {
				r.Errorf("imported %q", got)
			}
		})
		names := r.listed(records)
		for i := range queues {
			if q := queues[i].Spec.Name; i >= len(names) || names[i] != q {
				r.Fatalf("the entry lists %q", names)
			}
			r.recorded(queues[i].Spec.Name, "created by token:4f1cann \"at\" <desk>: - to 10/s ("+
				changelog.ArchiveDetail(mark)+")")
		}
		if rev := r.info(names[0]).Revision; rev != 1<<50 {
			r.Errorf("revision %d", rev)
		}
		r.audits(p, 0, func() { r.importQueues(queues...) }) // as after a lost answer
		if put := r.put(spec(names[0], "11/s")); put.Revision <= 1<<50 {
			r.Errorf("revision %d came after %d", put.Revision, int64(1<<50))
		}
	}},
	{"queues that exist or do not fit stay out, and are not in the entry", func(r *rig) {
		r.queue("a", "10/s")
		r.open(exportedQueue{queue: moved("b")})
		r.queue("c", "10/s", pulled)
		r.queue("d.x", "10/s")
		queues := []move.Queue{
			moved("a"), moved("b"), moved("c.x"), moved("d", pulled), moved("e"),
			moved("f", func(s *queue.Spec) { s.Rules = []string{"f.none"} }), moved("g"), moved("g.x"),
			moved("h", pulled), moved("h.x"),
		}
		counts := make([]int, r.e.Partitions())
		for p := range counts {
			counts[p] = len(r.auditRecords(p))
		}
		if got := r.importQueues(queues...); got != "e g g.x h" {
			r.Errorf("imported %s", got)
		}
		var names []string
		for p, n := range counts {
			names = append(names, r.listed(r.auditRecords(p)[n:])...)
		}
		if slices.Sort(names); strings.Join(names, " ") != "e g g.x h" {
			r.Errorf("the log has %v", names)
		}
		if got := r.importQueues(queues...); got != "e g g.x h" {
			r.Errorf("imported %s the second time", got)
		}
		if done, err := r.mover().ImportQueues(r.ctx, queues[4:5], "another"); err != nil || done[0] {
			r.Errorf("another import took it for its own: %v", err)
		}
		_, err := r.mover().ImportQueues(r.ctx, []move.Queue{moved("i"), {Spec: queue.Spec{Name: "a b"}}}, mark)
		r.refusesField("name", err)
		if _, err := r.e.Get(r.ctx, "i"); err == nil {
			r.Error("a queue was imported beside an invalid one")
		}
	}},
	{"a parent gets no more children than it may have", func(r *rig) {
		queues := []move.Queue{moved("a")}
		for i := range queue.MaxChildren + move.MaxStep + 1 {
			queues = append(queues, moved(fmt.Sprintf("a.%05d", i)))
		}
		done := strings.Fields(r.importQueues(queues...))
		if n := len(done); n != queue.MaxChildren+1 || done[n-1] != fmt.Sprintf("a.%05d", queue.MaxChildren-1) {
			r.Errorf("%d queues were imported", n)
		}
		if g := r.info("a").Group; g.Children != queue.MaxChildren {
			r.Errorf("it has %d children", g.Children)
		}
	}},
	{"an imported queue continues from a deleted one of its name", func(r *rig) {
		q := r.queue("q", "1/m")
		r.accept(q, "a")
		r.deliver(r.grant(q, 1, "a")...)
		m := r.export(q)
		r.delete(q)
		m.queue.Bucket = leaky.Bucket{}
		r.importQueues(m.queue)
		r.accept(q, "b")
		r.clock.Advance(59 * time.Second)
		if got := r.reserve(q, 1); len(got) > 0 {
			r.Errorf("%v departed %v after the last", ids(got), 59*time.Second)
		}
		r.clock.Advance(time.Second)
		r.deliver(r.grant(q, 1, "b")...)
	}},
}
