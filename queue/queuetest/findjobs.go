package queuetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
)

var findRules = []rule{
	{"jobs of all states and queues are found by id, and shown as in lists", func(r *rig) {
		every := r.everyState("x-1")
		r.queue("empty", "unlimited")
		for _, limit := range []int{1, 2, 3, queue.MaxPage} {
			r.finds(queue.FindRequest{ID: "x-1", Limit: limit}, every...)
			r.finds(queue.FindRequest{ID: "x-", Limit: limit})
			r.finds(queue.FindRequest{ID: "X-1", Limit: limit})
		}
	}},
	{"jobs of all states but deferred ones are found by the beginning of their ids", func(r *rig) {
		every := slices.DeleteFunc(r.everyState("x-1"), func(at string) bool { return at == "g.deferred/x-1" })
		for _, queueName := range []string{"aa", "g.waiting"} {
			r.queue(queueName, "1/h")
			r.append(jobs(queueName, "x-22", "y-1", "x", "w")...)
		}
		every = append(every, "aa/x-22", "g.waiting/x-22")
		for _, limit := range []int{1, 2, 3, queue.MaxPage} {
			r.finds(queue.FindRequest{ID: "x-", Prefix: true, Limit: limit}, every...)
			r.finds(queue.FindRequest{ID: "x-2", Prefix: true, Limit: limit}, "aa/x-22", "g.waiting/x-22")
			r.finds(queue.FindRequest{ID: "x-[0-9]*", Prefix: true, Limit: limit})
		}
	}},
	{"jobs are found by lane", func(r *rig) {
		q, other, plain := r.queue("g.q", "unlimited"), r.queue("other", "1/h"), r.queue("plain", "1/h")
		r.append(
			jobOfLane("a", q, "dead-1"), jobOfLane("b", q, "dead-b"), jobOfLane("a", q, "failed"),
			withPriority(3, "a", q, "held"), jobOfLane("a", q, "leased"), job(q, "none"), jobOfLane("a", q, "delivered"),
		)
		for _, v := range r.reserve(q, 9) {
			switch v.ID {
			case "dead-1", "dead-b":
				r.settled(queue.Dead, settlement(queue.Bury, v))
			case "failed":
				r.fail(time.Hour, v)
			case "held":
				r.hold("unclear", v)
			case "delivered":
				r.deliver(v)
			}
		}
		r.append(jobOfLane("a", other, "waits-1"), jobOfLane("b", other, "waits-b"), jobOfLane("a", other, "waits-2"))
		r.append(job(plain, "a"))
		all := []string{"g.q/dead-1", "g.q/failed", "g.q/held", "g.q/leased", "other/waits-1", "other/waits-2"}
		for _, limit := range []int{1, 2, queue.MaxPage} {
			r.finds(queue.FindRequest{Lane: "a", Limit: limit}, all...)
			r.finds(queue.FindRequest{Lane: "nobody", Limit: limit})
			r.finds(queue.FindRequest{Lane: "a", ID: "waits", Prefix: true, Limit: limit}, all[4:]...)
			for _, at := range all {
				_, id, _ := strings.Cut(at, "/")
				r.finds(queue.FindRequest{Lane: "a", ID: id, Limit: limit}, at)
				r.finds(queue.FindRequest{Lane: "b", ID: id, Limit: limit})
			}
			r.finds(queue.FindRequest{Lane: "a", ID: "delivered", Limit: limit})
		}
		r.delete(q)
		r.finds(queue.FindRequest{Lane: "b", Limit: 9}, "g.q/dead-b", "other/waits-b")
	}},
	{"a search covers a range of queue names", func(r *rig) {
		for _, name := range []string{"a", "a-b", "a.c", "b", "b.c"} {
			r.queue(name, "unlimited")
			r.accept(name, "x")
		}
		r.grant("a.c", 1, "x")
		for _, c := range []struct{ from, to, want string }{
			{"", "", "a/x a-b/x a.c/x b/x b.c/x"},
			{"a", "a-", "a/x"},
			{"a.", "a/", "a.c/x"},
			{"a-b", "b.", "a-b/x a.c/x b/x"},
			{"b.c", "", "b.c/x"},
			{"c", "", ""},
			{"", "a", ""},
		} {
			for _, req := range []queue.FindRequest{{ID: "x"}, {ID: "x", Prefix: true}} {
				req.From, req.To, req.Limit = c.from, c.to, 1
				r.finds(req, strings.Fields(c.want)...)
			}
		}
	}},
	{"a dead job of a deleted queue is found until its id is used again", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute))
		r.buried("refused", jobs(q, "a", "b")...)
		r.delete(q)
		r.finds(queue.FindRequest{ID: "a", Limit: 1}, "q/a")
		r.finds(queue.FindRequest{ID: "b", Prefix: true, Limit: 1}, "q/b")
		r.sweeps(q)
		r.queue("q", "unlimited", remember(time.Minute))
		r.finds(queue.FindRequest{ID: "a", Limit: 1}, "q/a")
		r.accept(q, "a")
		if found, _ := r.search(queue.FindRequest{ID: "a", Limit: 9}); len(found) != 1 || found[0].State != queue.Waiting {
			r.Errorf("found %+v", found)
		}
		r.drain(q)
		r.clock.Advance(time.Minute)
		r.finds(queue.FindRequest{ID: "a", Limit: 1})
		r.finds(queue.FindRequest{ID: "b", Prefix: true, Limit: 1})
	}},
	{"each call looks at a bounded number of jobs and queues", func(r *rig) {
		var want []string
		for i := range 400 {
			q := r.queue(fmt.Sprintf("q%03d", i), "1/h")
			if i%100 == 50 {
				r.accept(q, "needle")
				want = append(want, q+"/needle")
			}
		}
		for i := range 12 {
			r.append(jobs("q399", numbered(fmt.Sprint("hay-", i, "-"), 500)...)...)
		}
		for i := range 1200 {
			r.append(jobOfLane(fmt.Sprint("lane-", i), "q398", fmt.Sprint("hay-", i)))
		}
		if calls := r.finds(queue.FindRequest{ID: "need", Prefix: true, Limit: queue.MaxPage}, want...); calls < 3 {
			r.Errorf("%d calls looked at 7,204 jobs", calls)
		}
		r.finds(queue.FindRequest{ID: "needle", Limit: queue.MaxPage}, want...)
		r.finds(queue.FindRequest{ID: "hay-11-00500", Prefix: true, Limit: 1}, "q399/hay-11-00500")
		r.finds(queue.FindRequest{Lane: "lane-1199", Limit: 1}, "q398/hay-1199")
		if all, _ := r.search(queue.FindRequest{ID: "hay", Prefix: true, Limit: 100}); len(all) != 7200 {
			r.Errorf("found %d of 7,200 jobs", len(all))
		}
	}},
	{"a search finds every job that stays, while others come and go", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.queue("r", "unlimited")
		r.buried("", jobs("r", numbered("stays-", 40)...)...)
		r.accept(q, numbered("stays-", 40)...)
		r.accept(q, numbered("goes-", 40)...)
		seen, n := map[string]bool{}, 0
		req := queue.FindRequest{ID: "stays-", Prefix: true, Limit: 3}
		for {
			page, err := r.e.FindJobs(r.ctx, req)
			if err != nil {
				r.Fatal(err)
			}
			for _, j := range page.Jobs {
				seen[j.Queue+"/"+j.ID] = true
			}
			if n++; n <= 20 {
				r.accept(q, fmt.Sprint("new-", n))
				r.cancels(queue.Cancelled, q, numbered("goes-", 40)[n])
				r.queue(fmt.Sprint("p", n), "1/h")
			}
			if req.After = page.Next; page.Next == "" {
				break
			}
		}
		if len(seen) != 80 {
			r.Errorf("found %d of 80 jobs", len(seen))
		}
	}},
	{"an invalid search is refused", func(r *rig) {
		q := r.queue("q", "1/h")
		r.accept(q, "a", "ab")
		long := strings.Repeat("x", 200)
		for _, c := range []struct {
			field string
			req   queue.FindRequest
		}{
			{"id", queue.FindRequest{Limit: 1}},
			{"id", queue.FindRequest{Prefix: true, Limit: 1}},
			{"id", queue.FindRequest{ID: long, Limit: 1}},
			{"id", queue.FindRequest{ID: "a b", Prefix: true, Limit: 1}},
			{"id", queue.FindRequest{ID: "..", Limit: 1}},
			{"lane", queue.FindRequest{Lane: strings.Repeat("x", queue.MaxLaneBytes+1), Limit: 1}},
			{"limit", queue.FindRequest{ID: "a"}},
			{"limit", queue.FindRequest{ID: "a", Limit: queue.MaxPage + 1}},
			{"after", queue.FindRequest{ID: "a", Limit: 1, After: "x"}},
		} {
			_, err := r.e.FindJobs(r.ctx, c.req)
			r.notAField(err, c.field)
		}
		r.finds(queue.FindRequest{ID: "..", Prefix: true, Limit: 1})
		req := queue.FindRequest{ID: "a", Prefix: true, Limit: 1}
		page, err := r.e.FindJobs(r.ctx, req)
		if err != nil || page.Next == "" {
			r.Fatal(page, err)
		}
		for _, other := range []queue.FindRequest{
			{ID: "a"},
			{ID: "b", Prefix: true},
			{ID: "a", Prefix: true, Lane: "a"},
			{ID: "a", Prefix: true, From: "a"},
			{ID: "a", Prefix: true, To: "a"},
		} {
			other.Limit, other.After = 1, page.Next
			_, err := r.e.FindJobs(r.ctx, other)
			r.notAField(err, "after")
		}
		// A well-formed forged cursor only starts elsewhere and does no harm.
		for _, c := range []queue.FindCursor{
			{Partition: 1 << 30},
			{Queue: "q", State: 77},
			{Queue: "nobody", State: queue.Held, Within: &queue.Cursor{At: 1, ID: "x"}},
			{Queue: q, State: queue.Delivered, Within: &queue.Cursor{ID: "x"}},
			{Queue: q, State: queue.Waiting, Within: &queue.Cursor{At: 1 << 62, Lane: strings.Repeat("\xff", 16)}},
			{Within: &queue.Cursor{At: -1, ID: "x"}},
		} {
			req.After = req.Next(c)
			if _, err := r.e.FindJobs(r.ctx, req); err != nil {
				r.notAField(err, "after")
			}
		}
	}},
}

// everyState puts a job with an id into each state, in a queue of the group g named after the state, and returns all
// QUEUE/ID.
func (r *rig) everyState(id string) (all []string) {
	r.Helper()
	at := func(s queue.State) string {
		name := "g." + s.String()
		r.queue(name, "unlimited")
		all = append(all, name+"/"+id)
		return name
	}
	r.accept(at(queue.Waiting), id)
	r.schedule(later(r.clock.Now().Add(time.Hour), at(queue.Scheduled), id))
	for s, settle := range map[queue.State]func(v queue.Reservation){
		queue.Leased:    func(queue.Reservation) {},
		queue.Delivered: func(v queue.Reservation) { r.deliver(v) },
		queue.Held:      func(v queue.Reservation) { r.hold("unclear", v) },
		queue.Dead: func(v queue.Reservation) {
			s := settlement(queue.Bury, v)
			s.Reason = "refused"
			r.settled(queue.Dead, s)
		},
	} {
		name := at(s)
		r.acceptJobs(withPriority(2, "lane", name, id))
		settle(r.grant(name, 1, id)[0])
	}
	r.accept(at(queue.Cancelled), id)
	r.cancels(queue.Cancelled, "g.cancelled", id)
	name := at(queue.Expired)
	r.late(name, expiringJob(r.clock.Now().Add(time.Minute), name, id))
	r.clock.Advance(time.Minute)
	r.reserve(name, 1)
	r.state(queue.Expired, name, id)
	all = append(all, "g.deferred/"+id)
	o := r.overflowOf("g.deferred", "1/h", withCapacity(1))
	r.accept(o.q, "first")
	o.setAside(id)
	return all
}

// search searches to the end, and returns the number of calls.
func (r *rig) search(req queue.FindRequest) (all []queue.JobInfo, calls int) {
	r.Helper()
	for calls < 100_000 {
		page, err := r.e.FindJobs(r.ctx, req)
		if err != nil {
			r.Fatalf("find %+v: %v", req, err)
		}
		if len(page.Jobs) > req.Limit {
			r.Fatalf("find %+v: %d jobs", req, len(page.Jobs))
		}
		all, calls = append(all, page.Jobs...), calls+1
		if req.After = page.Next; page.Next == "" {
			return all, calls
		}
	}
	r.Fatalf("find %+v: it never ends", req)
	return nil, 0
}

// finds searches to the end, compares the jobs, and returns the number of calls.
func (r *rig) finds(req queue.FindRequest, want ...string) (calls int) {
	r.Helper()
	all, calls := r.search(req)
	var got []string
	for _, j := range all {
		got = append(got, j.Queue+"/"+j.ID)
		if want := r.asListed(j.Queue, j.ID); !reflect.DeepEqual(j, want) {
			r.Errorf("found\n     %+v\nseen %+v", j, want)
		}
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		r.Errorf("find %+v:\n got %v\nwant %v", req, got, want)
	}
	return calls
}
