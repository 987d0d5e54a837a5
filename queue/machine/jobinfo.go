package machine

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Found is what memory knows of a job, and where the rest is stored.
type Found struct {
	info     queue.JobInfo
	timeline []byte    // of a job that holds a place, as stored
	dead     *endedJob // of a dead job
	seq      uint64    // the key of its record; 0 if not kept
	ahead    time.Duration
}

// Read returns the job with what its record adds. It needs no machine.
func (f *Found) Read(tx Transaction) (i queue.JobInfo, err error) {
	i = f.info
	if f.dead != nil {
		shown := []queue.JobInfo{i}
		readDead(tx, shown, []*endedJob{f.dead})
		i = shown[0]
	} else {
		// The attempt under way, or the delivery, comes after the failed ones.
		last := i.Timeline
		if i.Timeline, err = jobrecord.UnpackTimeline(f.timeline); err != nil {
			return i, err
		}
		i.Timeline = append(i.Timeline, last...)
	}
	if f.seq != 0 {
		// a job that ended just now may have no record left
		if record, err := (&tables{tx}).getRecord(f.seq); err == nil {
			_ = jobrecord.UnpackContent(record, &i) // if unreadable, the job is shown without it
		}
	}
	i.ToWall(f.ahead)
	return i, nil
}

// FindJob returns what memory knows of a job, and the commit that the answer waits for: a job that is reported ended or
// unknown must not come back. While the job arrives, f is nil; call FindJob again after the returned commit. Errors,
// which wait too: queue.ErrUnknownQueue, queue.ErrUnknownJob.
func (m *Machine) FindJob(now leaky.Instant, name, id string) (f *Found, wait uint64, err error) {
	if f, wait, err = m.findJob(now, name, id); f != nil {
		f.ahead = m.ahead()
	}
	return f, wait, err
}

func (m *Machine) findJob(now leaky.Instant, name, id string) (f *Found, wait uint64, err error) {
	q, err := m.liveQueue(name)
	if err != nil {
		if d := m.deadJob(name, id, now); d != nil {
			return deadJobFound(name, d), m.waitsForEnded(d), nil
		}
		return nil, m.unlessDurable(m.deletedBy), err
	}
	if j := q.jobs[id]; j != nil {
		if j.arriving() {
			return nil, m.waitsForJob(j), nil
		}
		f := &Found{info: q.jobInfo(j, now), seq: j.seq}
		if j.lease != nil {
			f.timeline = j.lease.timeline
		}
		return f, m.waitsForJob(j), nil
	}
	if d := q.endedJobs.find(id, q.spec.Retention, now); d != nil {
		if d.state == queue.Dead {
			return deadJobFound(name, d), m.waitsForEnded(d), nil
		}
		f := &Found{info: endedJobInfo(name, d)}
		if d.departed != 0 {
			f.info.AddLast(queue.Attempt{At: d.departed.Time(), Drainer: d.drainer})
		}
		return f, m.waitsForEnded(d), nil
	}
	if number, d := q.deferral(id, now); d != nil {
		f, wait := &Found{info: q.deferredJobInfo(id, number, d, now)}, m.waitsForDeferral(d)
		if d.state == cancelledDeferral {
			wait = m.lastWait()
		}
		return f, wait, nil
	}
	if d := m.deadJob(name, id, now); d != nil { // of a deleted queue
		return deadJobFound(name, d), m.waitsForEnded(d), nil
	}
	return nil, m.unlessDurable(m.deletedBy), fmt.Errorf("%w: %s in %s", queue.ErrUnknownJob, clip.Quote(id, 80), name)
}

func deadJobFound(name string, d *endedJob) *Found {
	return &Found{info: endedJobInfo(name, d), dead: d, seq: d.seq}
}

func (q *queueState) jobInfo(j *job, now leaky.Instant) queue.JobInfo {
	i := queue.JobInfo{
		Queue: q.name, ID: j.id, State: j.state, Cost: int64(j.cost), Lane: j.lane.key, Priority: j.priority(),
		AppendedAt: j.appended.Time(), ExpiresAt: j.expiresAt(), Batch: q.jobBatch(j),
	}
	if ls := j.lease; ls != nil {
		i.Attempts, i.Reason = ls.attempts, ls.reason
	}
	switch j.state {
	case queue.Waiting:
		i.Position = int64(j.lane.waiting.rank(j)) + 1
		i.ETA = q.etaOf(j, q.costBounds(int64(j.cost), false), now)
		i.Why = q.whyNotLeft(j, now)
	case queue.Scheduled:
		i.DueAt = j.lease.due.Time()
		i.ETA = q.etaOf(j, q.costBounds(int64(j.cost), false), now)
		i.Why = q.whyNotLeft(j, now)
	case queue.Leased:
		i.DueAt = j.lease.due.Time()
		i.AddLast(queue.Attempt{At: i.DueAt, Drainer: j.lease.drainer})
	case queue.Held:
		i.HeldAt = j.lease.due.Time()
		i.Why = queue.Why{By: cause.Held, Reason: i.Reason}
	}
	return i
}

// deferredJobInfo describes a deferred job. Its position assumes that deferred jobs come back in order; its ETA assumes
// average costs of the jobs before it.
func (q *queueState) deferredJobInfo(id string, number uint64, d *deferral, now leaky.Instant) queue.JobInfo {
	i := d.jobInfo(q, id)
	if i.State == queue.Cancelled {
		return i
	}
	count := q.counts[queue.Deferred]
	place := max(1, int64(number)-(int64(q.overflow.lastTicket)-count))
	before := float64(q.overflow.cost) * float64(place-1) / float64(count)
	waiting := q.counts[queue.Waiting]
	i.Position, i.Why = waiting+place, q.spec.Deferred.WhyDeferred(q.env.wall(now).Time())
	i.ETA.At = q.etaDeferred(
		waiting, q.gap(q.turn), int64(before), q.groupLoad(false), q.costBounds(int64(d.cost), false), now,
	).Time()
	return i
}

// jobInfo describes a deferred job, without its position and ETA.
func (d *deferral) jobInfo(q *queueState, id string) queue.JobInfo {
	i := queue.JobInfo{Queue: q.name, ID: id, State: queue.Deferred, Cost: int64(d.cost), AppendedAt: d.at.Time()}
	if d.state == cancelledDeferral {
		i.State = queue.Cancelled
	}
	return i
}

// jobInfo describes a job that holds a place, without its position and ETA.
func jobInfo(j *job) queue.JobInfo {
	i := queue.JobInfo{
		Queue: j.lane.queue.name, ID: j.id, State: j.state, Cost: int64(j.cost), Lane: j.lane.key,
		Priority: j.priority(), AppendedAt: j.appended.Time(),
		ExpiresAt: j.expiresAt(), Batch: j.lane.queue.jobBatch(j),
	}
	if ls := j.lease; ls != nil {
		i.Attempts, i.Reason = ls.attempts, ls.reason
		switch j.state {
		case queue.Waiting:
		case queue.Held:
			i.HeldAt = ls.due.Time()
		default:
			i.DueAt = ls.due.Time()
		}
	}
	return i
}

func endedJobInfo(name string, d *endedJob) queue.JobInfo {
	return queue.JobInfo{
		Queue: name, ID: d.id, State: d.state, Cost: int64(d.cost), Attempts: d.attempts,
		AppendedAt: d.appended.Time(), EndedAt: d.at.Time(), Reason: d.reason,
	}
}
