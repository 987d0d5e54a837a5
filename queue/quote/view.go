package quote

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	// maxReads is how often to read a queue that changes meanwhile.
	maxReads = 3
	// maxWaitingPages bounds the waiting jobs read if there are several lanes. With one lane, the first jobs of the
	// list are the first to leave.
	maxWaitingPages = 40
	maxOtherPages   = 2 // of scheduled jobs, and of leased jobs
)

// view has a queue and its jobs, as far as a Timetable needs them.
type view struct {
	info    queue.Info
	granted []queue.JobInfo // leased, about to depart
	jobs    []queue.JobInfo // waiting or scheduled, in the order of backlog
	backlog Backlog
	cut     map[queue.State]bool // states with jobs that were not read
	lastDue time.Time            // of the scheduled jobs read
	changed bool                 // jobs came or left meanwhile
}

// readJobs reads a queue, its jobs, and the queue again.
func readJobs(ctx context.Context, from TimetableSource, name string) (view, error) {
	v := view{cut: map[queue.State]bool{}}
	before, err := from.Get(ctx, name)
	if err != nil {
		return v, err
	}
	pages := maxWaitingPages
	if before.Lanes <= 1 {
		pages = (MaxDepartures + queue.MaxPage - 1) / queue.MaxPage
	}
	lists := map[queue.State][]queue.JobInfo{}
	for _, of := range []struct {
		state queue.State
		jobs  int64
		pages int
	}{
		{queue.Waiting, before.Waiting, pages},
		{queue.Scheduled, before.Scheduled, maxOtherPages},
		{queue.Leased, before.Leased, maxOtherPages},
	} {
		if of.jobs == 0 {
			continue
		}
		list, more, err := readPages(ctx, from, queue.ListRequest{Queue: name, State: of.state}, of.pages)
		if err != nil {
			return v, err
		}
		lists[of.state], v.cut[of.state] = list, more
	}
	if v.info, err = from.Get(ctx, name); err != nil {
		return v, err
	}
	v.changed = changed(&before, &v.info)
	gone := map[string]bool{} // jobs seen later in another state
	for _, j := range lists[queue.Leased] {
		gone[j.ID] = true
		if j.DueAt.After(v.info.Now) {
			v.granted = append(v.granted, j)
		}
	}
	remaining := func(list []queue.JobInfo) []queue.JobInfo {
		return slices.DeleteFunc(list, func(j queue.JobInfo) bool {
			seen := gone[j.ID]
			gone[j.ID] = true
			return seen
		})
	}
	scheduled := remaining(lists[queue.Scheduled])
	if n := len(scheduled); n > 0 {
		v.lastDue = scheduled[n-1].DueAt
	}
	v.jobs = inTurn(remaining(lists[queue.Waiting]), scheduled)
	v.backlog = Backlog{lanes: []string{""}, more: v.cut[queue.Waiting]}
	for n := range v.jobs {
		v.backlog.add(&v.jobs[n])
	}
	return v, nil
}

// more reports whether jobs that were not read may leave by until. beyond is whether a waiting job leaves later.
func (v *view) more(until time.Time, beyond bool) bool {
	switch {
	case v.cut[queue.Leased], v.cut[queue.Scheduled] && !v.lastDue.After(until):
		return true
	case v.cut[queue.Waiting]:
		return v.info.Lanes > 1 || !beyond
	}
	return v.info.Deferred > 0 && !beyond
}

func readPages(
	ctx context.Context, from TimetableSource, r queue.ListRequest, pages int,
) (list []queue.JobInfo, more bool, err error) {
	r.Limit = queue.MaxPage
	for range pages {
		page, err := from.ListJobs(ctx, r)
		if err != nil {
			return nil, false, err
		}
		list = append(list, page.Jobs...)
		if r.After = page.Next; page.Next == "" {
			return list, false, nil
		}
	}
	return list, true, nil
}

// changed reports whether the queue or its jobs changed between two readings.
func changed(a, b *queue.Info) bool {
	type counts struct {
		revision, waiting, scheduled, leased, held int64
		bucket                                     leaky.Bucket
		queue.Counters
	}
	of := func(i *queue.Info) counts {
		return counts{i.Revision, i.Waiting, i.Scheduled, i.Leased, i.Held, i.Bucket, i.Counters}
	}
	return of(a) != of(b)
}

// inTurn merges the scheduled jobs into the waiting ones, lane by lane, where they will be when they are due: a job
// keeps the turn of its append. Of jobs appended at the same time, the one with more attempts came first.
func inTurn(waits, scheduled []queue.JobInfo) []queue.JobInfo {
	if len(scheduled) == 0 {
		return waits
	}
	byTurn := func(a, b *queue.JobInfo) int {
		return cmp.Or(
			cmp.Compare(b.Priority, a.Priority), a.AppendedAt.Compare(b.AppendedAt), cmp.Compare(b.Attempts, a.Attempts),
		)
	}
	due := make([]*queue.JobInfo, len(scheduled))
	for n := range scheduled {
		due[n] = &scheduled[n]
	}
	slices.SortStableFunc(due, byTurn)
	lanes, keys := map[string][]*queue.JobInfo{}, []string{}
	for _, j := range due {
		if _, ok := lanes[j.Lane]; !ok {
			keys = append(keys, j.Lane)
		}
		lanes[j.Lane] = append(lanes[j.Lane], j)
	}
	all := make([]queue.JobInfo, 0, len(waits)+len(scheduled))
	leave := func(jobs []*queue.JobInfo) {
		for _, j := range jobs {
			all = append(all, *j)
		}
	}
	for n := range waits {
		j := &waits[n]
		for s := lanes[j.Lane]; len(s) > 0 && byTurn(s[0], j) < 0; s = lanes[j.Lane] {
			all, lanes[j.Lane] = append(all, *s[0]), s[1:]
		}
		all = append(all, *j)
		if n+1 == len(waits) || waits[n+1].Lane != j.Lane {
			leave(lanes[j.Lane])
			lanes[j.Lane] = nil
		}
	}
	for _, key := range keys {
		leave(lanes[key])
	}
	return all
}
