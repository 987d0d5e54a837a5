package quote

import (
	"context"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// MaxBacklog is the most jobs that a Backlog holds.
const MaxBacklog = 100_000

// Backlog is what waits in a queue, as far as deadlines need it: lane by lane, each in the
// order in which its jobs would leave it.
type Backlog struct {
	jobs  []waiting
	lanes []string // their keys; the first is that of jobs that name none
	// deadlines is how many of the jobs expire at all.
	deadlines int
	// more says that others wait that are not in it.
	more bool
}

// waiting is a job of a Backlog.
type waiting struct {
	lane    int
	n       int // which one of the Backlog it is
	cost    int64
	expires leaky.Instant // 0 is never
	due     leaky.Instant // of a scheduled one; 0 waits already
}

// ReadBacklog lists the waiting jobs of a queue, MaxBacklog at most, in as many calls as that takes:
// what comes or leaves between them is in it or not. Errors: those of ListJobs.
func ReadBacklog(ctx context.Context, jobs queue.Jobs, name string) (Backlog, error) {
	b := Backlog{lanes: []string{""}}
	req := queue.ListRequest{Queue: name, State: queue.Waiting, Limit: queue.MaxPage}
	for range 2 * MaxBacklog / queue.MaxPage { // a page need not be full
		page, err := jobs.ListJobs(ctx, req)
		if err != nil {
			return Backlog{}, err
		}
		for i := range page.Jobs {
			b.add(&page.Jobs[i])
		}
		if req.After = page.Next; page.Next == "" {
			return b, nil
		}
		if len(b.jobs)+queue.MaxPage > MaxBacklog {
			break
		}
	}
	b.more = true
	return b, nil
}

// add takes in the next job of the list.
func (b *Backlog) add(i *queue.JobInfo) {
	if i.Lane != b.lanes[len(b.lanes)-1] {
		b.lanes = append(b.lanes, i.Lane)
	}
	w := waiting{lane: len(b.lanes) - 1, n: len(b.jobs), cost: i.Cost}
	if i.State == queue.Scheduled {
		w.due = leaky.Instant(i.DueAt.UnixMicro())
	}
	if !i.ExpiresAt.IsZero() {
		w.expires = leaky.Instant(i.ExpiresAt.UnixMicro())
		b.deadlines++
	}
	b.jobs = append(b.jobs, w)
}
