package quote

import (
	"context"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// MaxBacklog is the maximum number of jobs in a Backlog.
const MaxBacklog = 100_000

// Backlog has the waiting jobs of a queue, as far as deadlines need them: lane by lane, in departure order.
type Backlog struct {
	jobs  []waiting
	lanes []string // their keys; the first is "", for jobs without a lane
	// deadlines is how many of the jobs have one.
	deadlines int
	// more is whether other jobs wait, too.
	more bool
}

// waiting is a job of a Backlog.
type waiting struct {
	lane    int
	n       int // index in the Backlog
	cost    int64
	expires leaky.Instant // 0 is never
	due     leaky.Instant // if scheduled; 0 if it waits already
}

// ReadBacklog lists the waiting jobs of a queue, at most MaxBacklog, in as many calls as it takes. Jobs that come or
// leave between the calls may be missing. Errors: as ListJobs.
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

// add adds the next job of the list.
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
