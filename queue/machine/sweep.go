package machine

import (
	"github.com/penstock/penstock/leaky"
)

const (
	sweepMax = 500 // records of deleted queues that one Sweep frees
	// Records of forgotten jobs are deleted along with other commits. If more than that are left, Sweep requests a
	// commit.
	forgetMax      = 1000
	forgetLanesMax = 10_000 // idle lanes that one Sweep forgets, and as many of deleted queues
)

// leftovers is what remains to be deleted or forgotten, piece by piece.
type leftovers struct {
	forgotten       []*endedJob // forgotten by memory, but still on file
	lapsedDeferrals []uint64    // keys of forgotten deferrals
	garbage         []*garbage
	leftPaces       map[string]paces // of deleted queues
	trimCursor      string           // the queue that was trimmed last
}

// NeedsSweep reports whether there is work for Sweep.
func (m *Machine) NeedsSweep(now leaky.Instant) bool {
	return len(m.garbage) > 0 || len(m.idleLanes.items) > forgetMax && m.idleLanes.top().until <= now ||
		len(m.forgotten) > forgetMax || len(m.lapsedDeferrals) > forgetMax || m.droppedTallies.n > forgetMax
}

// garbage is what a deleted queue left in the file, and its lanes. It keeps the queue's own structures: walking through
// all of them at once could take seconds.
type garbage struct {
	waiting      waitList // in order of key, so deleting them is cheap
	byID         map[string]*job
	jobs         []uint64
	endedJobs    endedJobs
	ended        []*endedJob
	deferrals    deferrals
	deferralKeys []uint64 // of deferrals
	lanes        *sorted[*lane]
	tallies      *tallySet // of a deleted or reset rule; else nil
	tallyKeys    []uint64  // of tallies
	commit       uint64    // the commit that discarded it
}

func (g *garbage) empty() bool {
	return g.waiting.len() == 0 && len(g.byID) == 0 && len(g.jobs) == 0 && g.endedJobs.others.len() == 0 &&
		len(g.ended) == 0 && g.deferrals.n == 0 && len(g.deferralKeys) == 0 && g.lanes.len() == 0 &&
		(g.tallies == nil || g.tallies.len() == 0) && len(g.tallyKeys) == 0
}

func (m *Machine) discardQueue(q *queueState) {
	g := &garbage{
		byID: q.jobs, endedJobs: q.endedJobs, deferrals: q.overflow.records, lanes: q.laneOrder,
		commit: m.current.Number,
	}
	if q.defaultLane != nil {
		g.waiting = q.defaultLane.waiting
	}
	m.othersEnded -= int64(q.endedJobs.others.len())
	q.deadlines = nil
	m.armExpiring(q)
	q.jobs, q.lanes, q.laneOrder = nil, nil, nil
	if !g.empty() {
		m.garbage = append(m.garbage, g)
	}
}

// take removes up to limit records from r and returns them.
func (g *garbage) take(limit int) (taken garbage) {
	for ; limit > 0 && g.waiting.len() > 0; limit-- {
		j := g.waiting.front()
		g.waiting.remove(j)
		delete(g.byID, j.id)
		taken.jobs = append(taken.jobs, j.seq)
	}
	for id, j := range g.byID {
		if limit == 0 {
			break
		}
		delete(g.byID, id)
		taken.jobs = append(taken.jobs, j.seq)
		limit--
	}
	moveUpTo(&limit, &g.jobs, &taken.jobs)
	for ; limit > 0 && g.endedJobs.others.len() > 0; limit-- {
		taken.ended = append(taken.ended, g.endedJobs.others.pop())
	}
	moveUpTo(&limit, &g.ended, &taken.ended)
	for ; limit > 0 && g.deferrals.n > 0; limit-- {
		number := g.deferrals.oldest()
		taken.deferralKeys = append(taken.deferralKeys, g.deferrals.get(number).seq)
		g.deferrals.remove(number)
	}
	moveUpTo(&limit, &g.deferralKeys, &taken.deferralKeys)
	moveUpTo(&limit, &g.tallyKeys, &taken.tallyKeys)
	return taken
}

// moveUpTo moves up to limit items between lists, and reduces limit by their number.
func moveUpTo[T any](limit *int, from, to *[]T) {
	n := min(*limit, len(*from))
	*to, *from, *limit = append(*to, (*from)[:n]...), (*from)[n:], *limit-n
}

// forgetTallies forgets up to limit tallies that are no longer in use.
func (g *garbage) forgetTallies(m *Machine, limit int) {
	if g.tallies == nil {
		return
	}
	for i := range g.tallies.shards {
		for _, t := range g.tallies.shards[i].tallies {
			if limit--; limit < 0 {
				return
			}
			m.forgetTally(t)
		}
	}
}

// dropLanes drops the debts of up to limit lanes, and removes the idle ones from Machine.idleLanes.
func (g *garbage) dropLanes(m *Machine, limit int) {
	for ; limit > 0 && g.lanes.len() > 0; limit-- {
		ln := g.lanes.popLast()
		if m.dropDebts(ln); ln.size == 0 {
			ln.leave()
		}
	}
}

// Sweep frees a limited part of what deleted queues left behind, and returns the commit that its answer waits for. It
// also forgets the paces of deleted queues that delay nothing any more.
func (m *Machine) Sweep(now leaky.Instant) (wait uint64) {
	c, looked, some := m.current, 0, len(m.forgotten) > forgetMax || len(m.lapsedDeferrals) > forgetMax
	m.forgetIdleLanes(now, forgetLanesMax)
	for name, left := range m.leftPaces {
		if looked++; looked > sweepMax {
			break
		}
		if _, taken := m.queues[name]; !taken && !left.stillDelays(now) {
			c.dropLeftPaces(name)
			delete(m.leftPaces, name)
			some = true
		}
	}
	for name, dead := range m.deadJobs {
		if looked++; looked > sweepMax {
			break
		}
		if m.queues[name] == nil && dead.dead.len() == 0 {
			c.dropRetention(name)
			delete(m.deadJobs, name)
			some = true
		}
	}
	if m.sweepGarbage() || some || m.droppedTallies.n > forgetMax {
		return m.wait()
	}
	return 0
}

// sweepGarbage drops some unreferenced records, and reports whether there were any.
func (m *Machine) sweepGarbage() (some bool) {
	if len(m.garbage) == 0 || m.garbage[0].commit > m.durable { // a failed commit brings back what it discarded
		return false
	}
	c, g := m.current, m.garbage[0]
	taken := g.take(sweepMax)
	each(taken.jobs, c.dropJob)
	each(taken.jobs, c.dropLease)
	each(taken.ended, c.dropEnded)
	each(taken.deferralKeys, c.dropDeferral)
	each(taken.tallyKeys, c.dropTally)
	g.dropLanes(m, forgetLanesMax)
	g.forgetTallies(m, expiredTalliesTurn)
	if g.empty() {
		m.garbage = m.garbage[1:]
	}
	return !taken.empty()
}
