package machine

import (
	"maps"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Successor returns an empty machine to load after a commit failed. Its fences continue after m's.
func (m *Machine) Successor() *Machine {
	next := New(m.epoch)
	next.maxBatches = m.maxBatches
	next.lastFence, next.Environment.Ahead, next.filedAhead = m.lastFence, m.Environment.Ahead, m.Environment.Ahead
	return next
}

// CarryOver takes over, from a machine whose last commits failed, what the store does not keep but callers were told.
// That is leases (as of before the failed commits), what rules let through, counts without a commit, and clients.
// Decisions of the failed commits are discarded. Turns and the paces of lanes start over, as after a restart.
func (m *Machine) CarryOver(old *Machine, now leaky.Instant) {
	c := carrying{Machine: m, old: old, byNumber: make(map[uint64]*queueState, len(m.queues)), now: now}
	for _, q := range m.queues {
		c.byNumber[q.number] = q
	}
	// Revisions that a client may have seen are not given again.
	m.store.revision = max(m.store.revision, old.store.revision)
	m.rulesVersion = max(m.rulesVersion, old.rulesVersion) + 1
	m.attending, m.signals, m.openTakes = old.attending, old.signals, old.openTakes
	for _, q := range old.queues {
		c.queue(q)
	}
	for _, f := range old.failing() {
		each(f.deleted, c.queue)
	}
	c.formerPaces()
	c.takeAgain()
	c.leases()
	c.clients()
	c.counters()
	c.tallies()
	for name := range m.queueNames.from(func(string) bool { return true }) {
		m.rearm(m.queues[name], now)
	}
	for _, q := range old.queues {
		c.readySince(q)
	}
	m.publishWake("")
}

type carrying struct {
	*Machine
	old      *Machine
	byNumber map[uint64]*queueState
	now      leaky.Instant
}

// jobLike returns this machine's job that corresponds to j of another machine, or nil.
func (c *carrying) jobLike(j *job) *job {
	if q := c.byNumber[j.lane.queue.number]; q != nil {
		if own := q.jobs[j.id]; own != nil && own.seq == j.seq {
			return own
		}
	}
	return nil
}

// queue carries over what a queue knows beyond its record.
func (c *carrying) queue(old *queueState) {
	q := c.byNumber[old.number]
	if q == nil {
		return
	}
	q.unsaved, q.outflow, q.promised, q.pullState = old.unsaved, old.outflow, old.promised, old.pullState
	q.lastFence = old.lastFence
	if old.overflow.holder != "" {
		o := q.ownOverflow()
		o.holder, o.holderUntil = old.overflow.holder, old.overflow.holderUntil
	}
	if q.revision == old.revision {
		c.paces(&q.paces, &old.paces)
	}
	// a probe has left and stopped the queue until the next one
	if r, was := &q.receiver, &old.receiver; r.opened != 0 && r.opened == was.opened && was.stop > r.stop {
		r.stop, r.cause, r.reason, r.probe = was.stop, was.cause, was.reason, was.probe
	}
	for id, d := range old.endedJobs.byID { // the store does not keep when it departed, and to which drainer
		if own := q.endedJobs.byID[id]; own != nil && own.key == d.key {
			own.departed, own.drainer = d.departed, d.drainer
		}
	}
	for _, j := range old.jobs {
		ls, own := j.lease, c.jobLike(j)
		if ls == nil || own == nil || ls.verdict != queue.Release || ls.commit > c.old.durable {
			continue
		}
		to := own.ensureLease() // given back without a commit
		to.settled, to.verdict, to.result = ls.settled, ls.verdict, ls.result
	}
}

// readySince carries over since when a queue could depart.
func (c *carrying) readySince(old *queueState) {
	q := c.byNumber[old.number]
	if q != nil && q.onAgenda() && old.onAgenda() && q.revision == old.revision && old.departsAt < q.departsAt {
		q.departsAt = old.departsAt
		c.putOnAgenda(q, true, c.now)
	}
}

// formerPaces restores the paces of queues whose spec the failed commits changed: nothing has left by the new paces.
func (c *carrying) formerPaces() {
	seen := map[*queueState]bool{}
	for _, f := range c.old.failing() {
		for i := range f.formerPaces {
			q := c.byNumber[f.formerPaces[i].queue.number]
			if q == nil || seen[q] {
				continue
			}
			seen[q] = true
			c.paces(&q.paces, &f.formerPaces[i].value)
		}
	}
}

// takeAgain takes back what the failed commits gave back: those departures still count as used.
func (c *carrying) takeAgain() {
	for _, f := range c.old.failing() {
		for _, b := range f.givenBack {
			if q := c.byNumber[b.lease.job.lane.queue.number]; q != nil {
				q.takeAgain(b, c.now)
			}
		}
	}
}

// paces carries over the exact use of paces. They were restored from ceilings, which are ahead of it.
func (c *carrying) paces(p, old *paces) {
	p.bucket = old.bucket
	if p.pacer != old.pacer { // the rate had adapted, and is not adapted now
		p.bucket = old.pacer.Change(old.bucket, p.pacer, c.now)
	}
	for i := range p.limits {
		p.limits[i].carryOver(&old.limits[i], c.now)
	}
	p.changed = old.changed
}

// leases carries over leases whose grants were answered, as the failed commits found them.
func (c *carrying) leases() {
	for _, f := range c.old.failing() {
		for _, ls := range f.endedLeases {
			c.lease(ls)
		}
	}
	for ls := range c.old.leases.all {
		c.lease(ls)
	}
}

func (c *carrying) lease(old *lease) {
	j := c.jobLike(old.job)
	if j == nil || old.granted > c.old.durable || j.lease != nil && j.lease.fence == old.fence {
		return
	}
	switch {
	case j.state == queue.Leased:
		c.dropLease(j)
	case j.state == queue.Scheduled: // as before the grant
		j.lane.queue.scheduled.remove(j.lease)
	case j.state == queue.Waiting:
		j.lane.queue.removeWaiting(j)
	default:
		return
	}
	ls := j.ensureLease()
	ls.fence, ls.due, ls.deadline, ls.drainer, ls.granted = old.fence, old.due, old.deadline, old.drainer, old.granted
	ls.persisted = old.persisted
	if old.verdict == queue.Release && old.commit <= c.old.durable { // an earlier grant of the job was given back
		ls.settled, ls.verdict, ls.result = old.settled, old.verdict, old.result
	}
	c.setState(j, queue.Leased)
	c.Machine.leases.push(ls)
}

// clients carries over the clients and the last answer to each.
func (c *carrying) clients() {
	c.drainers = c.old.drainers
	for _, cl := range c.drainers.clients {
		g := cl.grant
		switch {
		case g == nil:
			continue
		case g.wait > c.old.durable: // the request is to be decided again
			cl.grant = nil
			continue
		}
		own := *g
		own.jobs = nil
		for _, h := range g.jobs {
			if j := c.jobLike(h.job); j != nil {
				h.job = j
				own.jobs = append(own.jobs, h)
			}
		}
		cl.grant = &own
	}
}

// counters carries over counts that needed no commit but were written along with a failed one.
func (c *carrying) counters() {
	for _, f := range c.old.failing() {
		for _, u := range f.unsaved {
			if q := c.byNumber[u.queue.number]; q != nil {
				q.count().Add(u.value.Values())
			}
		}
	}
}

// failing returns the commits that are not durable.
func (m *Machine) failing() []*Commit { return append(m.taken[:len(m.taken):len(m.taken)], m.current) }

// tallies carries over what was taken from rules by name: that is answered before it is kept. What the jobs of failed
// commits took is given back. If a failed commit changed a rule, later takes count only if they were asked of the same
// tallies.
func (c *carrying) tallies() {
	changed, dropped := map[tallyKey]*tally{}, map[uint64]bool{}
	note := func(t *tally) {
		if !t.gone {
			changed[tallyKey{t.set, t.digest}] = t
		}
	}
	for _, f := range c.old.failing() {
		each(f.tallies, note)
		for _, number := range f.droppedTallies {
			dropped[number] = true
		}
	}
	for _, chunk := range c.old.dirtyTallies.chunks {
		each(chunk, note)
	}
	for _, chunk := range c.old.droppedTallies.chunks {
		for _, number := range chunk {
			dropped[number] = true
		}
	}
	sets := make(map[uint64]*tallySet, len(c.rules))
	for _, r := range c.rules {
		sets[r.tallies.number] = r.tallies
		c.dropTallies(r.tallies, dropped)
	}
	for k := range c.old.charged {
		changed[k] = k.set.find(k.key)
	}
	for k, t := range changed {
		if set := sets[k.set.number]; set != nil {
			c.tally(set, k, t)
		}
	}
	c.owedAudits(sets)
}

func (c *carrying) dropTallies(s *tallySet, numbers map[uint64]bool) {
	if len(numbers) == 0 {
		return
	}
	for i := range s.shards {
		for _, t := range maps.Clone(s.shards[i].tallies) {
			if numbers[t.number] {
				c.forgetTally(t)
			}
		}
	}
}

// tally carries over one tally; old is nil if it had been forgotten.
func (c *carrying) tally(set *tallySet, k tallyKey, old *tally) {
	own := c.tallyOf(set, k.key, c.now)
	if g := c.old.charged[k]; g != nil {
		s, by := g.withoutCharges()
		own.unpacked = nil
		own.setState(s, by, c.now)
	} else {
		own.expires, own.unpacked, own.size, own.packed = old.expires, old.unpacked, old.size, old.packed
	}
	c.markDirty(own)
	if own.expired(c.now) {
		c.forgetTally(own)
	}
}

// owedAudits carries over audit entries that were answered before they were kept.
func (c *carrying) owedAudits(sets map[uint64]*tallySet) {
	for _, f := range c.old.failing() {
		c.owed = append(c.owed, f.owed...)
	}
	c.owed = append(c.owed, c.old.owed...)
	for i := range c.owed {
		var kept []*tally
		for _, t := range c.owed[i].tallies {
			if t.gone {
				kept = append(kept, t)
			} else if set := sets[t.set.number]; set != nil && set.find(t.digest) != nil {
				kept = append(kept, set.find(t.digest))
			}
		}
		c.owed[i].tallies = kept
	}
	c.unsaved = c.unsaved || len(c.owed) > 0
}
