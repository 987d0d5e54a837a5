package redisq

import (
	"context"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// lineupPage is how many lanes one script looks at, which takes it 1 to 2 ms: less than the slack of a departure.
const lineupPage = 250

// Lineup implements queue.Specs.
func (e *Engine) Lineup(ctx context.Context, name string) (l queue.Lineup, err error) {
	if l.Info, err = e.Get(ctx, name); err != nil {
		return l, err
	}
	for after := ""; ; {
		r, err := e.lineup(ctx, name, after, lineupPage, false)
		if err != nil {
			return l, err
		}
		after = r.next
		l.Lanes = append(l.Lanes, r.lanes...)
		l.Due, l.Siblings, l.Flight = append(l.Due, r.due...), append(l.Siblings, r.siblings...), max(l.Flight, r.flight)
		if after == "" || len(l.Lanes) >= queue.MaxLineupLanes {
			l.Lanes = l.Lanes[:min(len(l.Lanes), queue.MaxLineupLanes)]
			return l, nil
		}
	}
}

// Lanes implements queue.Specs.
func (e *Engine) Lanes(ctx context.Context, r queue.LanesRequest) (p queue.LanesPage, err error) {
	if names.Validate(r.Queue) != nil {
		return p, unknown(r.Queue)
	}
	if err := r.Validate(); err != nil {
		return p, err
	}
	after := ""
	if r.After != (queue.LaneDigest{}) {
		after = string(r.After[:])
	}
	for {
		page, err := e.lineup(ctx, r.Queue, after, min(r.Limit+1, lineupPage), true)
		if err != nil {
			return p, err
		}
		p.Lanes = append(p.Lanes, page.lanes...)
		after = page.next
		if len(p.Lanes) > r.Limit || after == "" {
			p.More = len(p.Lanes) > r.Limit
			p.Lanes = p.Lanes[:min(len(p.Lanes), r.Limit)]
			return p, nil
		}
	}
}

type lineupReply struct {
	next     string
	lanes    []queue.LaneState
	due      []queue.DueJobs
	siblings []queue.Sibling
	flight   time.Duration
}

func (e *Engine) lineup(ctx context.Context, name, after string, most int, keys bool) (l lineupReply, err error) {
	v, err := e.ask(ctx, lineupScript, e.Partition(name), e.instant(), name, after, most, keys)
	if err != nil {
		return l, err
	}
	if v == int64(0) {
		return l, unknown(name)
	}
	r := list(v)
	l.next = r.text()
	rows, due, siblings := r.list(), r.list(), r.list()
	l.flight = r.duration()
	ahead := r.duration()
	for rows.more() {
		s := queue.LaneState{}
		copy(s.Digest[:], rows.text())
		readLane(rows, &s.LaneInfo)
		s.Cost = rows.int()
		if record := rows.text(); record != "" {
			s.Key, _, _ = jobrecord.UnpackLane([]byte(record))
		}
		s.ToWall(ahead)
		l.lanes = append(l.lanes, s)
	}
	for due.more() {
		d := queue.DueJobs{At: micros(due.int())}
		copy(d.Lane[:], due.text())
		d.Jobs, d.Cost = due.int(), due.int()
		l.due = append(l.due, d)
	}
	for siblings.more() {
		s := queue.Sibling{Waiting: siblings.int(), Cost: siblings.int(), Weight: siblings.int()}
		s.Rate = leaky.RateOf(siblings.int(), siblings.int())
		s.Burst, s.Bucket = siblings.int(), readBucket(siblings)
		s.ToWall(ahead)
		l.siblings = append(l.siblings, s)
	}
	for _, part := range []*reply{r, rows, due, siblings} {
		if part.err != nil {
			return l, part.err
		}
	}
	return l, nil
}

// readLane reads the state of a lane.
func readLane(r *reply, i *queue.LaneInfo) {
	i.Waiting, i.Size, i.Bucket, i.Stop, i.Bytes = r.int(), r.int(), readBucket(r), micros(r.int()), r.int()
	for states := r.list(); states.more(); {
		i.Limits = append(i.Limits, queue.LimitState{Bucket: readBucket(states.list())})
	}
}
