package queuetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/changelog"
)

var changesKeptRules = []rule{
	{"changes are kept for 400 days", func(r *rig) {
		q := r.queue("q", "1/s")
		begin := r.clock.Now()
		r.clock.Advance(24 * time.Hour)
		r.pauses(q, 0, "x")
		r.clock.Set(begin.Add(queue.KeepChanges - time.Microsecond))
		r.recorded(q, "paused by ann@desk: x", "created by : - to 1/s")
		r.clock.Set(begin.Add(queue.KeepChanges))
		r.recorded(q, "paused by ann@desk: x")
		r.check(r.e.Resume(r.ctx, q))
		r.recorded(q, "resumed by ", "paused by ann@desk: x")
		r.clock.Set(begin.Add(2 * queue.KeepChanges))
		r.recorded(q) // empty, and no error: the queue exists
		page, err := r.e.Changes(r.ctx, queue.ChangesRequest{Subject: queue.OfQueue, Name: q, Limit: 9})
		if r.check(err); page.Dropped != 0 {
			r.Errorf("%d were dropped for lack of room", page.Dropped)
		}
		r.queue(q, "2/s")
		if list := r.changes(q, 9); list[0].Number != 4 {
			r.Errorf("numbers start again: %+v", list)
		}
	}},
	{
		"a pause that ended by itself has its number before it is recorded, however old the changes before it are",
		func(r *rig) {
			q := r.queue("q", "1/s")
			r.pauses(q, r.clock.Now().Add(time.Minute), "x")
			r.clock.Advance(2 * queue.KeepChanges)
			before := r.changes(q, 9)
			r.queue(q, "2/s")
			if after := r.changes(q, 9); len(before) != 1 || before[0].Number != 3 || after[0].Number != 4 {
				r.Errorf("number 3 is shown as %+v, and number 4 as %+v", before, after)
			}
		},
	},
	{
		"a name keeps about a megabyte of changes, counts dropped ones, and drops no other name's",
		func(r *rig) {
			other := r.queue("other", "1/s")
			q := r.queue("q", "1/s")
			one := r.info(q).Revision
			r.put(spec(q, "2/s"))
			reason := strings.Repeat("x", queue.MaxReasonBytes-4)
			const n = 2500
			for i := range n {
				r.pauses(q, 0, fmt.Sprintf("%s%04d", reason, i))
			}
			page, err := r.e.Changes(r.ctx, queue.ChangesRequest{Subject: queue.OfQueue, Name: q, Limit: 9})
			r.check(err)
			got := r.changes(q, 2*n)
			oldest, newest := got[len(got)-1], got[0]
			if page.Dropped != oldest.Number-1 || newest.Number != n+2 || int64(len(got)) != newest.Number-page.Dropped {
				r.Errorf("%d kept, from %d to %d, and %d dropped", len(got), newest.Number, oldest.Number, page.Dropped)
			}
			if bytes := len(got) * queue.MaxReasonBytes; bytes > changelog.MaxBytes || bytes < changelog.MaxBytes/2 {
				r.Errorf("%d are kept, of %d bytes each and more", len(got), queue.MaxReasonBytes)
			}
			r.recorded(other, "created by : - to 1/s")
			_, err = r.e.Rollback(r.ctx, q, one, queue.AnyRevision)
			r.check(err)
			r.rate(q, "1/s")
		},
	},
	{"the last 50 specs are kept whatever their size, also of a deleted queue", func(r *rig) {
		var big []queue.Spec
		var revisions []int64
		for i := range changelog.MaxSpecs + 10 {
			big = append(big, spec("q", "1/s", func(s *queue.Spec) {
				s.Deliver = json.RawMessage(fmt.Sprintf(
					`{"x":{"n":%d,"t":%q}}`, i, strings.Repeat("x", queue.MaxDeliverBytes-50),
				))
			}))
			revisions = append(revisions, r.put(big[i]).Revision)
		}
		present := revisions[len(revisions)-1]
		for range 2 {
			h, err := r.e.History(r.ctx, "q")
			if r.check(err); h.Revision != present || len(h.Specs) != changelog.MaxSpecs {
				r.Fatalf("at %d, not %d; %d specs", h.Revision, present, len(h.Specs))
			}
			for i, s := range h.Specs {
				if n := len(revisions) - 1 - i; s.Revision != revisions[n] || !s.Spec.Equal(big[n]) {
					r.Errorf("spec %d is at %d, not %d", n, s.Revision, revisions[n])
				}
			}
			if present == 0 {
				break
			}
			r.delete("q")
			present = 0
		}
		list := r.changes("q", 100)
		if !list[1].After.Equal(big[len(revisions)-1]) || list[len(list)-1].After != nil ||
			list[len(list)-1].Revision != revisions[0] {
			r.Errorf("the last put is shown as %+v, the first as %+v", list[1], list[len(list)-1])
		}
	}},
	{"the history outlives the queue for as long, and continues if the queue is made again", func(r *rig) {
		q := r.queue("q", "1/s")
		r.clock.Advance(100 * 24 * time.Hour)
		r.delete(q)
		gone := r.clock.Now()
		r.clock.Advance(time.Hour)
		other := r.queue("g.other", "1/s")
		r.delete(other)
		r.recorded(q, "deleted by : 1/s to -", "created by : - to 1/s")
		r.clock.Set(gone.Add(queue.KeepChanges - time.Microsecond))
		if h, err := r.e.History(r.ctx, q); err != nil || h.Revision != 0 || len(h.Specs) != 1 {
			r.Errorf("%+v, %v", h, err)
		}
		r.recorded(q, "deleted by : 1/s to -")
		r.clock.Set(gone.Add(queue.KeepChanges))
		_, err := r.e.Changes(r.ctx, queue.ChangesRequest{Subject: queue.OfQueue, Name: q, Limit: 9})
		r.refuses(err, queue.ErrUnknownQueue)
		_, err = r.e.Rollback(r.ctx, q, 0, queue.AnyRevision)
		r.refuses(err, queue.ErrUnknownQueue)
		r.queue(q, "2/s")
		r.recorded(q, "created by : - to 2/s")
		r.queue(other, "2/s")
		r.recorded(other, "created by : - to 2/s", "deleted by : 1/s to -", "created by : - to 1/s")
		r.clock.Advance(queue.KeepChanges - time.Microsecond)
		r.recorded(other, "created by : - to 2/s")
		if h, err := r.e.History(r.ctx, other); err != nil || len(h.Specs) != 2 {
			r.Errorf("an existing queue lost its specs: %+v, %v", h, err)
		}
	}},
	{"changes are read in pages, by kind and time", func(r *rig) {
		q := r.queue("q", "1/s")
		begin := r.clock.Now()
		for i := range 250 {
			r.clock.Set(begin.Add(time.Duration(i+1) * time.Second))
			r.pauses(q, 0, fmt.Sprint(i))
			if i%50 == 49 {
				r.check(r.e.Resume(r.ctx, q))
			}
		}
		ask := queue.ChangesRequest{Subject: queue.OfQueue, Name: q, Limit: 7}
		if all := r.record(ask, 1000); len(all) != 256 {
			r.Errorf("%d in pages of 7", len(all))
		} else {
			for i := range all {
				if all[i].Number != int64(256-i) {
					r.Fatalf("%d is number %d", i, all[i].Number)
				}
			}
		}
		ask.What = []changekind.Kind{changekind.Resumed, changekind.Created}
		if some := r.record(ask, 1000); len(some) != 6 || some[5].What != changekind.Created {
			r.Errorf("resumed and created: %+v", some)
		}
		ask.Since, ask.Until = begin.Add(50*time.Second).Time(), begin.Add(100*time.Second).Time()
		if some := r.record(ask, 1000); len(some) != 1 || !some[0].At.Equal(ask.Since) {
			r.Errorf("between %v and %v: %+v", ask.Since, ask.Until, some)
		}
		page, err := r.e.Changes(r.ctx, queue.ChangesRequest{Subject: queue.OfQueue, Name: q, Limit: 7, Before: 1})
		if err != nil || len(page.Changes) != 0 || page.Next != 0 {
			r.Errorf("before the first: %+v, %v", page, err)
		}
		page, err = r.e.Changes(r.ctx, queue.ChangesRequest{Subject: queue.OfQueue, Name: q, Limit: 1, Before: 1 << 60})
		if err != nil || len(page.Changes) != 1 || page.Changes[0].Number != 256 {
			r.Errorf("before one that is to come: %+v, %v", page, err)
		}
	}},
}
