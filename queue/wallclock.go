package queue

import (
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
)

// Users see wall-clock times. Engines store most instants by their own clock, which may be ahead of it
// (machine.Clock). ToWall moves these back by the difference. Instants given by callers, such as NotBefore, already
// are wall-clock times.

// ToWall returns the ETA by the wall clock.
func (e ETA) ToWall(ahead time.Duration) ETA {
	return ETA{At: toWall(e.At, ahead), Exact: e.Exact}
}

// ToWall converts i to wall-clock times, except for its parent.
func (i *Info) ToWall(ahead time.Duration) {
	if ahead == 0 {
		return
	}
	for _, at := range []*time.Time{
		&i.Pause.Since, &i.OldestWaiting, &i.Next, &i.Ready, &i.Asked, &i.Now, &i.Stop.Until, &i.Circuit.Opened,
	} {
		*at = toWall(*at, ahead)
	}
	for n := range i.RateChanges {
		i.RateChanges[n].At = toWall(i.RateChanges[n].At, ahead)
	}
	for n := range i.Errors {
		i.Errors[n].At = toWall(i.Errors[n].At, ahead)
	}
	i.Bucket = bucketToWall(i.Bucket, ahead)
	for n := range i.Limits {
		i.Limits[n].Bucket = bucketToWall(i.Limits[n].Bucket, ahead)
	}
}

// ToWall converts i to wall-clock times.
func (i *LaneInfo) ToWall(ahead time.Duration) {
	i.Stop, i.Bucket = toWall(i.Stop, ahead), bucketToWall(i.Bucket, ahead)
	for n := range i.Limits {
		i.Limits[n].Bucket = bucketToWall(i.Limits[n].Bucket, ahead)
	}
}

// ToWall converts s to wall-clock times.
func (s *Sibling) ToWall(ahead time.Duration) { s.Bucket = bucketToWall(s.Bucket, ahead) }

// ToWall converts i to wall-clock times.
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
	case cause.Throttled, cause.Down, cause.Quota, cause.Hours, cause.LaneHours:
		i.Why.Until = toWall(i.Why.Until, ahead)
	default: // wall-clock times already, or unknown
	}
}

// ToWall converts b to wall-clock times.
func (b *Batch) ToWall(ahead time.Duration) {
	b.FirstAt, b.LastAt, b.EndedAt = toWall(b.FirstAt, ahead), toWall(b.LastAt, ahead), toWall(b.EndedAt, ahead)
}

// ToWall converts d to wall-clock times by its own Clock.
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

// bucketToWall converts a bucket to wall-clock times, unless it has never let anything out.
func bucketToWall(b leaky.Bucket, ahead time.Duration) leaky.Bucket {
	if b != (leaky.Bucket{}) {
		b.TAT, b.Last = b.TAT.Add(-ahead), b.Last.Add(-ahead)
	}
	return b
}
