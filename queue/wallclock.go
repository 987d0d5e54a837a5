package queue

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
)

// What is shown is told by the wall clock, while engines keep most instants by their own, which may be ahead of it
// (machine.Clock). ToWall moves the latter back by as much. What callers gave, such as NotBefore, is the wall clock's.

// ToWall returns the ETA by the wall clock.
func (e ETA) ToWall(ahead time.Duration) ETA {
	return ETA{At: toWall(e.At, ahead), Exact: e.Exact}
}

// ToWall tells all of i by the wall clock, but for its parent.
func (i *Info) ToWall(ahead time.Duration) {
	if ahead == 0 {
		return
	}
	for _, at := range []*time.Time{
		&i.Pause.Since, &i.OldestWaiting, &i.Next, &i.Ready, &i.Asked, &i.Now, &i.Stop.Until, &i.Circuit.Opened,
	} {
		*at = toWall(*at, ahead)
	}
	for n := range i.Adaptions {
		i.Adaptions[n].At = toWall(i.Adaptions[n].At, ahead)
	}
	for n := range i.Errors {
		i.Errors[n].At = toWall(i.Errors[n].At, ahead)
	}
	i.Bucket = bucketToWall(i.Bucket, ahead)
	for n := range i.Limits {
		i.Limits[n].Bucket = bucketToWall(i.Limits[n].Bucket, ahead)
	}
}

// ToWall tells all of i by the wall clock.
func (i *LaneInfo) ToWall(ahead time.Duration) {
	i.Stop, i.Bucket = toWall(i.Stop, ahead), bucketToWall(i.Bucket, ahead)
}

// ToWall tells all of i by the wall clock.
func (i *JobInfo) ToWall(ahead time.Duration) {
	if ahead == 0 {
		return
	}
	i.ETA = i.ETA.ToWall(ahead)
	i.AppendedAt, i.HeldAt, i.EndedAt = toWall(i.AppendedAt, ahead), toWall(i.HeldAt, ahead), toWall(i.EndedAt, ahead)
	if i.State != Scheduled {
		i.DueAt = toWall(i.DueAt, ahead)
	}
	for n := range i.Timeline {
		a := &i.Timeline[n]
		a.At, a.EndedAt = toWall(a.At, ahead), toWall(a.EndedAt, ahead)
	}
	switch i.Why.By {
	case cause.Throttled, cause.Down, cause.Quota:
		i.Why.Until = toWall(i.Why.Until, ahead)
	default: // by the wall clock, or not known
	}
}

// ToWall tells all of d by the wall clock, of which it knows how far the engine's is ahead.
func (d *Drainers) ToWall() {
	ahead := d.Clock.Ahead
	d.Now, d.Last, d.Clock.Jumped = toWall(d.Now, ahead), toWall(d.Last, ahead), toWall(d.Clock.Jumped, ahead)
	for n := range d.Seen {
		d.Seen[n].LastSeen = toWall(d.Seen[n].LastSeen, ahead)
	}
}

func toWall(at time.Time, ahead time.Duration) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(-ahead)
}

// bucketToWall leaves a bucket alone that never let anything out.
func bucketToWall(b leaky.Bucket, ahead time.Duration) leaky.Bucket {
	if b != (leaky.Bucket{}) {
		b.TAT, b.Last = b.TAT.Add(-ahead), b.Last.Add(-ahead)
	}
	return b
}
