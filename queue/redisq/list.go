package redisq

import (
	"context"
	"fmt"
	"strconv"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// ListJobs implements queue.Jobs.
func (e *Engine) ListJobs(ctx context.Context, r queue.ListRequest) (queue.Listing, error) {
	if names.Validate(r.Queue) != nil {
		return queue.Listing{}, unknown(r.Queue)
	}
	if err := r.Validate(); err != nil {
		return queue.Listing{}, err
	}
	c, err := r.Cursor()
	if err != nil {
		return queue.Listing{}, err
	}
	at, member, lane, _, err := placeOf(c, r.State)
	if err != nil {
		return queue.Listing{}, err
	}
	v, err := e.ask(ctx, listScript, e.Partition(r.Queue), e.instant(), r.Queue, int(r.State), r.Limit,
		digestOf(r.Lane), at, member, lane)
	if err != nil {
		return queue.Listing{}, err
	}
	if v == int64(0) {
		return queue.Listing{}, unknown(r.Queue)
	}
	return readListing(list(v), &r)
}

// digestOf returns a lane as scripts know it.
func digestOf(lane *string) string {
	if lane == nil {
		return ""
	}
	d := queue.DigestLane(*lane)
	return string(d[:])
}

func readListing(r *reply, asked *queue.ListRequest) (l queue.Listing, err error) {
	if l.Jobs, err = readListed(r.list(), asked.Queue, asked.State, nil); err != nil {
		return l, err
	}
	ahead := r.duration()
	for n := range l.Jobs {
		l.Jobs[n].ToWall(ahead)
	}
	if r.more() {
		l.Next = asked.Next(queue.Cursor{At: r.number(), ID: r.text(), Lane: r.text()})
	}
	return l, r.err
}

// readListed appends the jobs of one queue in one state.
func readListed(rows *reply, name string, s queue.State, jobs []queue.JobInfo) ([]queue.JobInfo, error) {
	for rows.more() {
		i, err := readListedJob(rows, name, s)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, i)
	}
	return jobs, rows.err
}

func readListedJob(r *reply, name string, s queue.State) (queue.JobInfo, error) {
	i := queue.JobInfo{
		Queue: name, State: s, ID: r.text(), Cost: r.int(), Attempts: int(r.int()), AppendedAt: micros(r.int()),
	}
	switch at := micros(r.int()); {
	case s.Ended():
		i.EndedAt = at
	case s == queue.Held:
		i.HeldAt = at
	default:
		i.DueAt = at
	}
	i.Reason = r.text()
	if record := r.text(); record != "" {
		// A broken record must not hide the others.
		_ = jobrecord.UnpackInfo([]byte(record), &i)
	}
	if s != queue.Delivered {
		i.Timeline, _ = jobrecord.UnpackTimeline([]byte(r.text()))
	} else if departed := r.int(); departed > 0 {
		i.AddLast(queue.Attempt{At: micros(departed)})
	}
	return i, r.err
}

// number reads a number that may be a score, which Redis writes as a text.
func (r *reply) number() int64 {
	if r.more() {
		if n, ok := r.v[0].(int64); ok {
			r.v = r.v[1:]
			return n
		}
	}
	text := r.text()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: a script answered %s in place of a number", queue.ErrCorrupt, clip.Quote(text, 40))
	}
	return int64(n)
}

// placeOf returns where the page before ended, as scripts take it: at, member, lane; and until when.
func placeOf(c *queue.Cursor, s queue.State) (at, member, lane, until string, err error) {
	if c == nil {
		return "", "", "", "", nil
	}
	if s == queue.Waiting && len(c.Lane) != len(queue.LaneDigest{}) {
		return "", "", "", "", &invalid.Error{Field: "after", Reason: "names no lane"}
	}
	return strconv.FormatInt(c.At, 10), c.ID, c.Lane, strconv.FormatInt(c.Until, 10), nil
}
