package queuetest

import (
	"errors"
	"strings"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

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

// buried appends jobs and makes them dead, all at the same instant.
func (r *rig) buried(reason string, list ...queue.Job) {
	r.Helper()
	r.append(list...)
	var out []queue.Settlement
	for _, v := range r.reserve(list[0].Queue, queue.MaxReserve) {
		s := settlement(queue.Bury, v)
		s.Reason = reason
		out = append(out, s)
	}
	if len(out) != len(list) {
		r.Fatalf("%d of %d jobs were granted", len(out), len(list))
	}
	for _, s := range r.settle(out...) {
		if s.State != queue.Dead {
			r.Fatalf("buried: %+v", s)
		}
	}
}

// asListed returns a job as Job shows it, without the fields that lists leave out.
func (r *rig) asListed(queueName, id string) queue.JobInfo {
	r.Helper()
	i := r.job(queueName, id)
	i.Position, i.ETA, i.Why = 0, queue.ETA{}, queue.Why{}
	i.Payload, i.ContentType, i.Headers = nil, "", nil
	if i.State != queue.Dead {
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
