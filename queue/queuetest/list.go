package queuetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

var listRules = []rule{
	{"dead jobs are listed by time of death, ties by id", func(r *rig) {
		q, other := r.queue("g.q", "unlimited"), r.queue("g.other", "unlimited")
		r.buried("no such address", jobs(q, "c", "a", "d", "b")...)
		r.buried("elsewhere", job(other, "x"))
		r.clock.Advance(time.Second)
		r.buried("refused", jobOfLane("lane", q, "A"), withPriority(7, "", q, "e"))
		r.lists(queue.ListRequest{Queue: q, State: queue.Dead}, "a b c d A e")
		for _, j := range r.pages(queue.ListRequest{Queue: q, State: queue.Dead}, 4, nil) {
			if want := r.asListed(q, j.ID); !reflect.DeepEqual(j, want) {
				r.Errorf("listed\n     %+v\nseen %+v", j, want)
			}
		}
	}},
	{"scheduled jobs are listed by due time, ties by id", func(r *rig) {
		q := r.queue("q", "unlimited")
		at := r.clock.Now().Add(time.Hour)
		inLane := later(at, q, "a")
		inLane.Lane = "lane"
		r.schedule(
			later(at.Add(time.Second), q, "late"), later(at, q, "b"), inLane, later(at.Add(-time.Second), q, "soon"),
		)
		r.accept(q, "failed", "waits")
		v := r.grant(q, 1, "failed")
		r.fail(time.Minute, v...)
		r.lists(queue.ListRequest{Queue: q, State: queue.Scheduled}, "failed soon a b late")
		for _, j := range r.pages(queue.ListRequest{Queue: q, State: queue.Scheduled}, 2, nil) {
			if want := r.asListed(q, j.ID); !reflect.DeepEqual(j, want) {
				r.Errorf("listed\n     %+v\nseen %+v", j, want)
			}
		}
	}},
	{"leased jobs are listed once each", func(r *rig) {
		q, other := r.queue("g.q", "unlimited"), r.queue("g.other", "unlimited")
		ids := numbered("j", 20)
		r.accept(q, append([]string{"first"}, ids...)...)
		r.accept(other, numbered("o", 20)...)
		r.release(r.reserve(q, 1)...)
		r.reserve(q, 10)
		r.clock.Advance(time.Millisecond)
		r.reserve(other, 40)
		for _, limit := range []int{1, 7, queue.MaxPage} {
			all := r.pages(queue.ListRequest{Queue: q, State: queue.Leased}, limit, nil)
			for _, j := range all {
				if want := r.asListed(q, j.ID); !reflect.DeepEqual(j, want) {
					r.Errorf("listed\n     %+v\nseen %+v", j, want)
				}
			}
			if len(all) != int(r.info(q).Leased) {
				r.Errorf("%d listed in pages of %d, %d are leased", len(all), limit, r.info(q).Leased)
			}
		}
	}},
	{"a lease extended between two pages is not missed", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 3))
		r.accept(q, numbered("j", 30)...)
		v := r.reserve(q, 30)
		seen := map[string]bool{}
		req := queue.ListRequest{Queue: q, State: queue.Leased, Limit: 4}
		for n := 0; n < 15; n++ {
			r.clock.Advance(time.Millisecond)
			r.extend(v[2*n], time.Minute)
			l := r.page(req)
			for _, j := range l.Jobs {
				seen[j.ID] = true
			}
			if req.After = l.Next; l.Next == "" {
				break
			}
		}
		for req.After != "" {
			l := r.page(req)
			for _, j := range l.Jobs {
				seen[j.ID] = true
			}
			req.After = l.Next
		}
		if len(seen) != 30 {
			r.Errorf("%d of 30 were seen", len(seen))
		}
	}},
	{"waiting jobs are listed lane by lane, each in order", func(r *rig) {
		q := r.queue("q", "unlimited", func(s *queue.Spec) { s.MaxInFlight = 2 })
		lanes := keys(3)
		r.acceptJobs(
			jobOfLane(lanes[0], q, "a1"), job(q, "n1"), jobOfLane(lanes[1], q, "b1"),
			withPriority(9, lanes[0], q, "a2"), job(q, "n2"), jobOfLane(lanes[1], q, "b2"),
			withPriority(1, "", q, "n3"),
		)
		inLater := later(r.clock.Now().Add(time.Hour), q, "later")
		inLater.Lane = lanes[2]
		r.schedule(inLater)
		req := queue.ListRequest{Queue: q, State: queue.Waiting}
		for _, limit := range []int{1, 2, 3, 5, queue.MaxPage} {
			got := strings.Fields(namesOf(r.pages(req, limit, nil)))
			i, j := slices.Index(got, "a2"), slices.Index(got, "b1")
			if len(got) != 7 || strings.Join(got[:3], " ") != "n3 n1 n2" || i < 0 || j < 0 || i+1 >= 7 || j+1 >= 7 ||
				got[i+1] != "a1" || got[j+1] != "b2" {
				r.Errorf("in pages of %d: %v", limit, got)
			}
		}
		for _, j := range r.pages(req, 3, nil) {
			if want := r.asListed(q, j.ID); !reflect.DeepEqual(j, want) {
				r.Errorf("listed\n     %+v\nseen %+v", j, want)
			}
		}
		for lane, want := range map[string]string{
			lanes[0]: "a2 a1", lanes[1]: "b1 b2", lanes[2]: "", "nobody": "", "": "n3 n1 n2",
		} {
			r.lists(queue.ListRequest{Queue: q, State: queue.Waiting, Lane: &lane}, want)
		}
		v := r.grant(q, 2, "n3", "a2")
		r.lists(queue.ListRequest{Queue: q, State: queue.Waiting, Lane: &lanes[0]}, "a1")
		r.release(v...)
		r.lists(queue.ListRequest{Queue: q, State: queue.Waiting, Lane: &lanes[0]}, "a2 a1")
	}},
	{"jobs are listed with their deadlines", func(r *rig) {
		q := r.queue("q", "unlimited")
		at := r.clock.Now().Add(time.Hour)
		shown := func(state queue.State) {
			r.Helper()
			all := r.pages(queue.ListRequest{Queue: q, State: state}, 2, nil)
			if len(all) != 4 {
				r.Fatalf("%v: listed %s", state, namesOf(all))
			}
			for _, j := range all {
				want := at.Time()
				if j.ID == "never" {
					want = time.Time{}
				}
				if i := r.asListed(q, j.ID); !j.ExpiresAt.Equal(want) || !reflect.DeepEqual(j, i) ||
					j.Lane != map[string]string{"laned": "lane"}[j.ID] {
					r.Errorf("listed\n     %+v\nseen %+v, want until %v", j, i, want)
				}
			}
		}
		laned := jobOfLane("lane", q, "laned")
		laned.ExpiresAt = at.Time()
		odd := withPriority(3, "", q, "odd")
		odd.ExpiresAt, odd.ContentType, odd.Payload = at.Time(), "text/plain", []byte("x")
		r.acceptJobs(job(q, "never"), expiringJob(at, q, "until"), laned, odd)
		shown(queue.Waiting)
		v := r.reserve(q, 4)
		shown(queue.Leased)
		r.fail(time.Minute, v...)
		shown(queue.Scheduled)
		r.clock.Advance(time.Minute)
		for _, v := range r.reserve(q, 4) {
			r.settle(settlement(queue.Bury, v))
		}
		shown(queue.Dead)
	}},
	{"a job that leaves between two pages hides no other", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 30)...)
		n := 0
		got := r.pages(queue.ListRequest{Queue: q, State: queue.Waiting}, 3, func(page []queue.JobInfo) {
			n++
			r.cancels(queue.Cancelled, q, page[len(page)-1].ID) // the one that the cursor names
			r.cancels(queue.Cancelled, q, page[0].ID)
			r.accept(q, fmt.Sprint("new-", n)) // behind all others
		})
		for i, id := range numbered("j", 30) {
			if got[i].ID != id {
				r.Fatalf("listed %s", namesOf(got))
			}
		}
		r.drain(q)
		r.buried("", jobs(r.queue("dead", "unlimited"), numbered("d", 30)...)...)
		if got := r.pages(queue.ListRequest{Queue: "dead", State: queue.Dead}, 4, func(page []queue.JobInfo) {
			out, err := r.e.Forget(r.ctx, "dead", []string{page[1].ID, page[len(page)-1].ID})
			if err != nil || !out[0] || !out[1] {
				r.Fatalf("forget: %v, %v", out, err)
			}
		}); len(got) != 30 {
			r.Errorf("listed %s", namesOf(got))
		}
	}},
	{"lanes that come and go between two pages hide no job and repeat none", func(r *rig) {
		q := r.queue("q", "unlimited")
		var stay []string
		for i := range 300 {
			var list []queue.Job
			for k := range 3 {
				stay = append(stay, fmt.Sprintf("stays-%d-%d", i, k))
				list = append(list,
					jobOfLane(fmt.Sprint("lane-", i), q, stay[len(stay)-1]),
					jobOfLane(fmt.Sprintf("brief-%d-%d", i, k), q, fmt.Sprintf("goes-%d-%d", i, k)),
				)
			}
			r.acceptJobs(list...)
		}
		n := 0
		all := r.pages(queue.ListRequest{Queue: q, State: queue.Waiting}, 17, func(page []queue.JobInfo) {
			var come []queue.Job
			var leave []string
			for range 20 {
				come = append(come, jobOfLane(fmt.Sprint("new-", n), q, fmt.Sprint("new-", n)))
				if n < 900 {
					leave = append(leave, fmt.Sprintf("goes-%d-%d", n/3, n%3))
				}
				n++
			}
			r.acceptJobs(come...)
			for _, id := range leave {
				r.cancels(queue.Cancelled, q, id)
			}
		})
		seen := map[string]bool{}
		for _, j := range all {
			seen[j.ID] = true
		}
		for _, id := range stay {
			if !seen[id] {
				r.Errorf("%s was missed", id)
			}
		}
	}},
	{"ended jobs are listed by state, the last one to end first", func(r *rig) {
		q, other := r.queue("g.q", "unlimited", remember(time.Minute)), r.queue("g.other", "unlimited")
		r.accept(other, "x")
		r.deliver(r.grant(other, 1, "x")...)
		r.accept(q, "a", "b", "c", "d", "e", "f")
		for _, v := range r.grant(q, 4, "a", "b", "c", "d") {
			r.clock.Advance(time.Second)
			r.deliver(v)
		}
		r.clock.Advance(time.Second)
		r.cancels(queue.Cancelled, q, "e")
		r.lists(queue.ListRequest{Queue: q, State: queue.Delivered}, "d c b a")
		r.lists(queue.ListRequest{Queue: q, State: queue.Cancelled}, "e")
		r.lists(queue.ListRequest{Queue: q, State: queue.Expired}, "")
		for _, j := range r.pages(queue.ListRequest{Queue: q, State: queue.Delivered}, 3, nil) {
			if want := r.asListed(q, j.ID); !reflect.DeepEqual(j, want) {
				r.Errorf("listed\n     %+v\nseen %+v", j, want)
			}
		}
		first := r.page(queue.ListRequest{Queue: q, State: queue.Delivered, Limit: 2})
		r.deliver(r.grant(q, 1, "f")...) // it ends behind the page
		if rest := r.page(queue.ListRequest{Queue: q, State: queue.Delivered, Limit: 9, After: first.Next}); namesOf(
			rest.Jobs) != "b a" || rest.Next != "" {
			r.Errorf("listed %s, then %q", namesOf(rest.Jobs), rest.Next)
		}
		r.lists(queue.ListRequest{Queue: q, State: queue.Delivered}, "f d c b a")
		r.clock.Advance(time.Minute - 3*time.Second) // b and the ones before are forgotten
		r.lists(queue.ListRequest{Queue: q, State: queue.Delivered}, "f d c")
	}},
	{"a crowd of jobs that end at one instant is listed", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 450)...)
		r.deliver(r.reserve(q, 450)...)
		r.accept(q, "last")
		r.cancels(queue.Cancelled, q, "last")
		for _, limit := range []int{7, 200, 450, queue.MaxPage} {
			if all := r.pages(queue.ListRequest{Queue: q, State: queue.Delivered}, limit, nil); len(all) != 450 {
				r.Errorf("%d of 450 listed in pages of %d", len(all), limit)
			}
			r.lists(queue.ListRequest{Queue: q, State: queue.Cancelled}, "last")
		}
	}},
	{"a forgotten job is not listed", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute))
		r.buried("", jobs(q, "a", "b")...)
		r.clock.Advance(30 * time.Second)
		r.buried("", jobs(q, "c")...)
		r.clock.Advance(30 * time.Second)
		r.lists(queue.ListRequest{Queue: q, State: queue.Dead}, "c")
	}},
	{"an empty queue has one empty page", func(r *rig) {
		q := r.queue("q", "unlimited")
		for _, s := range []queue.State{queue.Waiting, queue.Scheduled, queue.Leased, queue.Dead} {
			r.lists(queue.ListRequest{Queue: q, State: s}, "")
		}
	}},
	{"a cursor of another list, or an invalid one, is refused", func(r *rig) {
		q, other, lane := r.queue("g.q", "unlimited"), r.queue("g.p", "unlimited"), "lane"
		r.accept(q, "a", "b", "c")
		r.accept(other, "a", "b", "c")
		next := r.page(queue.ListRequest{Queue: q, State: queue.Waiting, Limit: 1}).Next
		for _, req := range []queue.ListRequest{
			{Queue: other, State: queue.Waiting},
			{Queue: q, State: queue.Scheduled},
			{Queue: q, State: queue.Dead},
			{Queue: q, State: queue.Waiting, Lane: &lane},
		} {
			req.After, req.Limit = next, 1
			_, err := r.e.ListJobs(r.ctx, req)
			r.notAField(err, "after")
		}
		for _, after := range []string{
			"a", next + "A", next[1:], next[:len(next)-1], strings.ToUpper(next), strings.Repeat("A", 1<<16), "\x00",
			"=",
		} {
			_, err := r.e.ListJobs(r.ctx, queue.ListRequest{Queue: q, State: queue.Waiting, After: after, Limit: 1})
			r.notAField(err, "after")
			_, err = r.e.Purge(r.ctx, queue.PurgeRequest{Queue: q, State: queue.Waiting, After: after, Limit: 1})
			r.notAField(err, "after")
		}
		_, err := r.e.Purge(r.ctx, queue.PurgeRequest{Queue: q, State: queue.Waiting, After: next, Limit: 1})
		r.notAField(err, "after")
		r.state(queue.Waiting, q, "b")
		// A well-formed forged cursor only starts elsewhere and does no harm.
		forged := queue.ListRequest{Queue: q, State: queue.Waiting, Limit: 9}
		for _, c := range []queue.Cursor{
			{At: -1 << 62, ID: "x"},
			{At: 1 << 62, Lane: strings.Repeat("x", 16)},
			{Lane: "x"},
			{Lane: strings.Repeat("\xff", 500)},
		} {
			forged.After = forged.Next(c)
			if _, err := r.e.ListJobs(r.ctx, forged); err != nil {
				r.notAField(err, "after")
			}
		}
	}},
	{"an invalid list request is refused", func(r *rig) {
		q, lane, long := r.queue("q", "unlimited"), "lane", strings.Repeat("x", queue.MaxLaneBytes+1)
		for _, c := range []struct {
			field string
			req   queue.ListRequest
		}{
			{"state", queue.ListRequest{Queue: q, Limit: 1}},
			{"state", queue.ListRequest{Queue: q, State: queue.Deferred, Limit: 1}},
			{"state", queue.ListRequest{Queue: q, State: 200, Limit: 1}},
			{"limit", queue.ListRequest{Queue: q, State: queue.Dead}},
			{"limit", queue.ListRequest{Queue: q, State: queue.Dead, Limit: queue.MaxPage + 1}},
			{"limit", queue.ListRequest{Queue: q, State: queue.Dead, Limit: -1}},
			{"lane", queue.ListRequest{Queue: q, State: queue.Dead, Lane: &lane, Limit: 1}},
			{"lane", queue.ListRequest{Queue: q, State: queue.Waiting, Lane: &long, Limit: 1}},
		} {
			_, err := r.e.ListJobs(r.ctx, c.req)
			r.notAField(err, c.field)
		}
		for _, name := range []string{"nobody", "", "a b"} {
			_, err := r.e.ListJobs(r.ctx, queue.ListRequest{Queue: name, State: queue.Dead, Limit: 1})
			r.refuses(err, queue.ErrUnknownQueue)
		}
	}},
}

// page lists one page.
func (r *rig) page(req queue.ListRequest) queue.Listing {
	r.Helper()
	l, err := r.e.ListJobs(r.ctx, req)
	if err != nil {
		r.Fatalf("list %+v: %v", req, err)
	}
	if len(l.Jobs) > req.Limit {
		r.Fatalf("list %+v: %d jobs", req, len(l.Jobs))
	}
	for _, j := range l.Jobs {
		if j.Queue != req.Queue || j.State != req.State {
			r.Fatalf("list %+v: %+v", req, j)
		}
	}
	return l
}

// pages lists to the end in pages of limit jobs and calls between after each page. No job may appear twice.
func (r *rig) pages(req queue.ListRequest, limit int, between func(page []queue.JobInfo)) []queue.JobInfo {
	r.Helper()
	var all []queue.JobInfo
	seen := map[string]bool{}
	req.Limit = limit
	for range 10_000 {
		l := r.page(req)
		for _, j := range l.Jobs {
			if seen[j.ID] {
				r.Fatalf("list %+v: %s appears twice", req, j.ID)
			}
			seen[j.ID] = true
		}
		all = append(all, l.Jobs...)
		if l.Next == "" {
			return all
		}
		req.After = l.Next
		if between != nil {
			between(l.Jobs)
		}
	}
	r.Fatalf("list %+v: it never ends", req)
	return nil
}

func namesOf(list []queue.JobInfo) string {
	var ids []string
	for _, j := range list {
		ids = append(ids, j.ID)
	}
	return strings.Join(ids, " ")
}

// lists compares a list, read in pages of several sizes.
func (r *rig) lists(req queue.ListRequest, want string) {
	r.Helper()
	for _, limit := range []int{1, 2, 3, queue.MaxPage} {
		if got := namesOf(r.pages(req, limit, nil)); got != want {
			r.Errorf("%v jobs of %s in pages of %d:\n got %s\nwant %s", req.State, req.Queue, limit, got, want)
		}
	}
}

// asListed returns a job as Job shows it, without the fields that lists leave out.
func (r *rig) asListed(queueName, id string) queue.JobInfo {
	r.Helper()
	i := r.job(queueName, id)
	i.Position, i.ETA, i.Why = 0, queue.ETA{}, queue.Why{}
	i.Payload, i.ContentType, i.Headers = nil, "", nil
	switch i.State {
	case queue.Dead:
	case queue.Delivered:
		for n := range i.Timeline {
			i.Timeline[n].Drainer = ""
		}
	default:
		i.Timeline = nil
	}
	return i
}

func (r *rig) notAField(err error, field string) {
	r.Helper()
	var f *invalid.Error
	if !errors.As(err, &f) || f.Field != field {
		r.Errorf("got %v, want an error of the field %s", err, field)
	}
}
