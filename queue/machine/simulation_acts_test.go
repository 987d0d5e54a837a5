package machine

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// some returns a job that waits in a queue or on its overflow.
func (s *simulation) some(q *simQueue) *simJob {
	if q.overflow != nil && len(q.overflow.aside) > 0 && s.IntN(2) == 0 {
		return q.overflow.aside[s.IntN(len(q.overflow.aside))]
	}
	own := s.own(q)
	if own == nil || own.defaultLane == nil || own.defaultLane.waiting.len() == 0 {
		return nil
	}
	return s.job(own.defaultLane.waiting.front().id)
}

// cancel cancels a waiting job.
func (s *simulation) cancel(q *simQueue, next func()) {
	j := s.some(q)
	if j == nil {
		next()
		return
	}
	var state queue.State
	s.do(&simAct{
		of: s, what: "cancel " + j.String(), then: next,
		do: func(now leaky.Instant) (wait uint64, err error) {
			j.moved++
			state, wait, err = s.store.Cancel(now, audit.Actor{}, j.Queue, j.ID)
			return wait, err
		},
		held: func() { s.sees(j, state) },
	})
}

// decideHeld decides about a held job of each queue.
func (s *simulation) decideHeld(_ *simQueue, next func()) {
	for _, q := range s.queues {
		own := s.own(q)
		if own == nil {
			continue
		}
		for ls := range own.held.from(func(*lease) bool { return true }) {
			s.decideJob(s.job(ls.job.id))
			break // the list has changed
		}
	}
	next()
}

func (s *simulation) decideJob(j *simJob) {
	v := []queue.Verdict{queue.Deliver, queue.Bury, queue.Release}[s.IntN(3)]
	var states []queue.State
	s.do(&simAct{
		of: s, what: "decide that " + j.String() + " is " + v.String(),
		do: func(now leaky.Instant) (wait uint64, err error) {
			j.moved++
			states, wait, err = s.store.Decide(now, audit.Actor{}, j.Queue, []string{j.ID}, v, "by the operator")
			return wait, err
		},
		held: func() { s.sees(j, states[0]) },
	})
}

// purge cancels the first waiting or scheduled jobs. Which ones is found out later.
func (s *simulation) purge(q *simQueue, next func()) {
	r := queue.PurgeRequest{Queue: q.spec.Name, State: queue.Waiting, Limit: s.IntN(5) + 1}
	if s.IntN(3) == 0 {
		r.State = queue.Scheduled
	}
	s.do(&simAct{
		of: s, what: "purge " + q.spec.Name, then: next,
		do: func(now leaky.Instant) (wait uint64, err error) {
			_, wait, err = s.store.Purge(now, audit.Actor{}, r)
			return wait, err
		},
	})
}

// deadOf returns some dead jobs of a queue's name.
func (s *simulation) deadOf(q *simQueue) (ids []string) {
	if dead := s.store.deadJobs[q.spec.Name]; dead != nil {
		for d := range dead.dead.from(func(*endedJob) bool { return true }) {
			if ids = append(ids, d.id); len(ids) == 3 {
				break
			}
		}
	}
	return ids
}

// replay replays dead jobs. Other calls are decided while their records are read.
func (s *simulation) replay(q *simQueue, next func()) {
	ids := s.deadOf(q)
	if len(ids) == 0 || s.own(q) == nil {
		next()
		return
	}
	r, err := s.store.FindDead(s.store.now(), q.spec.Name, ids)
	if err != nil {
		s.fail("dead jobs of %s: %v", q.spec.Name, err)
		return
	}
	s.store.read(r.Read)
	var said []queue.ReplayOutcome
	act := &simAct{
		of: s, what: fmt.Sprint("replay ", q.spec.Name, ids), then: next,
		do: func(now leaky.Instant) (wait uint64, err error) {
			said, wait, err = s.store.Replay(now, audit.Actor{}, r)
			return wait, err
		},
		held: func() {
			for i := range said { // none was if the call was repeated and the store was full
				if id := ids[i]; said[i] == queue.Replayed {
					s.replayed(s.job(id))
				}
			}
		},
	}
	s.later(s.upTo(3*time.Millisecond), func() { s.do(act) })
	s.later(s.upTo(6*time.Millisecond), func() { s.lookFor(s.job(ids[0]), nil) })
}

// forget drops a dead job for good. An append's refusal waits for nothing, so the job may be unknown as soon as this is
// decided.
func (s *simulation) forget(q *simQueue, next func()) {
	ids := s.deadOf(q)
	if len(ids) == 0 {
		next()
		return
	}
	j := s.job(ids[0])
	was := j.lost
	s.do(&simAct{
		of: s, what: fmt.Sprint("forget ", q.spec.Name, ids[:1]), then: next,
		do: func(now leaky.Instant) (wait uint64, err error) {
			dropped, wait, err := s.store.Forget(now, audit.Actor{}, q.spec.Name, ids[:1])
			j.lost = j.lost || err == nil && dropped[0]
			return wait, err
		},
		lost: func() { j.lost = was },
	})
}

// look asks for a job that should be there.
func (s *simulation) look(_ *simQueue, next func()) {
	if len(s.open) == 0 {
		next()
		return
	}
	j := s.open[s.IntN(len(s.open))]
	if !j.entered || j.lost || s.forgotten(j) || s.own(j.of) == nil {
		next()
		return
	}
	s.lookFor(j, next)
}

// lookFor looks for a job, which must not be unknown while it has a place, and repeats that after its commit.
func (s *simulation) lookFor(j *simJob, next func()) {
	var f *Found
	act := &simAct{
		of: s, what: "look for " + j.String(),
		do: func(now leaky.Instant) (wait uint64, err error) {
			f, wait, err = s.store.FindJob(now, j.Queue, j.ID)
			if own := s.own(j.of); err != nil && own != nil && own.jobs[j.ID] != nil {
				s.fail("%s is %v: %v", j, own.jobs[j.ID].stateToBe(), err)
			}
			return wait, err
		},
		held: func() {
			if f == nil {
				return
			}
			i, err := f.Read(s.disk)
			if err != nil || j.end != 0 && !i.State.Ended() {
				s.fail("%s is %v: %v", j, i.State, err)
			}
			s.sees(j, i.State)
		},
	}
	act.told = func(err error) {
		switch {
		case err == nil && f == nil:
			s.do(act)
		case next != nil:
			next()
		}
	}
	s.do(act)
}
