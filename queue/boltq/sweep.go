package boltq

import (
	"context"

	"github.com/penstock/penstock/leaky"
)

const (
	sweepMax = 500 // records of deleted queues that one Sweep frees
	// Records of forgotten jobs go along with other commits. When those are too
	// few, a Sweep commits for them.
	forgetMax = 1000
	fadeMax   = 10_000 // lanes that one Sweep forgets, and of deleted queues as many
)

// untidy reports whether a Sweep has work.
func (e *Engine) untidy(now leaky.Instant) bool {
	return len(e.garbage) > 0 || len(e.fading.items) > forgetMax && e.fading.top().fades <= now || len(e.forget) > forgetMax || len(e.expunged) > forgetMax || e.dropped.n > forgetMax
}

// rubbish is what a deleted queue left in the file, and the lanes of it, which may fade. It
// keeps that as the queue had it: to go through it at once could take seconds.
type rubbish struct {
	waiting tiers // whose records are in order, and so freed cheaply
	held    map[string]*job
	jobs    []uint64
	memory  memory
	ended   []*ended
	records ledger
	seqs    []uint64 // of records of deferred jobs
	lanes   sorted[*lane]
	book    *book    // of a rule that counts anew, or is deleted; nil if it is no rule's
	numbers []uint64 // of tallies
}

func (r *rubbish) empty() bool {
	return r.waiting.len() == 0 && len(r.held) == 0 && len(r.jobs) == 0 && r.memory.delivered.len() == 0 &&
		len(r.ended) == 0 && r.records.n == 0 && len(r.seqs) == 0 && r.lanes.len() == 0 &&
		(r.book == nil || r.book.len() == 0) && len(r.numbers) == 0
}

// discard makes rubbish of a deleted queue.
func (e *Engine) discard(l *line) {
	r := &rubbish{waiting: l.bare.fifo, held: l.jobs, memory: l.ended, records: l.aside.records, lanes: l.roll}
	l.deadlines = sorted[deadline]{less: byDeadline}
	e.armExpiring(l)
	l.jobs, l.lanes, l.roll = map[string]*job{}, nil, sorted[*lane]{less: byDigest}
	if !r.empty() {
		e.garbage = append(e.garbage, r)
	}
}

// take removes up to limit records from r.
func (r *rubbish) take(limit int) (taken rubbish) {
	for ; limit > 0 && r.waiting.len() > 0; limit-- {
		j := r.waiting.front()
		r.waiting.remove(j)
		delete(r.held, j.id)
		taken.jobs = append(taken.jobs, j.seq)
	}
	for id, j := range r.held {
		if limit == 0 {
			break
		}
		delete(r.held, id)
		taken.jobs = append(taken.jobs, j.seq)
		limit--
	}
	n := min(limit, len(r.jobs))
	taken.jobs = append(taken.jobs, r.jobs[:n]...)
	r.jobs = r.jobs[n:]
	limit -= n
	for ; limit > 0 && r.memory.delivered.len() > 0; limit-- {
		taken.ended = append(taken.ended, r.memory.delivered.pop())
	}
	n = min(limit, len(r.ended))
	taken.ended = append(taken.ended, r.ended[:n]...)
	r.ended = r.ended[n:]
	limit -= n
	for ; limit > 0 && r.records.n > 0; limit-- {
		number := r.records.oldest()
		taken.seqs = append(taken.seqs, r.records.get(number).seq)
		r.records.remove(number)
	}
	n = min(limit, len(r.seqs))
	taken.seqs = append(taken.seqs, r.seqs[:n]...)
	r.seqs = r.seqs[n:]
	limit -= n
	n = min(limit, len(r.numbers))
	taken.numbers = append(taken.numbers, r.numbers[:n]...)
	r.numbers = r.numbers[n:]
	return taken
}

// clear forgets up to limit tallies that nobody asks any more.
func (r *rubbish) clear(e *Engine, limit int) {
	if r.book == nil {
		return
	}
	for i := range r.book.chapters {
		for _, t := range r.book.chapters[i].tallies {
			if limit--; limit < 0 {
				return
			}
			e.forgetTally(t)
		}
	}
}

// unfade takes those of up to limit lanes that fade out of the others that do.
func (r *rubbish) unfade(limit int) {
	for ; limit > 0 && r.lanes.len() > 0; limit-- {
		if ln := r.lanes.popLast(); ln.held == 0 {
			ln.leave()
		}
	}
}

// Sweep implements queue.Outflow. It also forgets the paces of deleted queues
// that can delay nothing any more.
func (e *Engine) Sweep(ctx context.Context, partition int) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	e.witherAll()
	c := newCall()
	if err := e.sweep(c); err != nil {
		return false, err
	}
	if err := c.await(ctx); err != nil {
		return true, err
	}
	if c.err != nil {
		return true, c.err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.untidy(e.now()), nil
}

func (e *Engine) sweep(c *call) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(); err != nil {
		return err
	}
	s := &sweeping{call: c}
	now, looked := e.now(), 0
	e.fade(now, fadeMax)
	for name, left := range e.left {
		if looked++; looked > sweepMax {
			break
		}
		if _, taken := e.lines[name]; !taken && !left.matters(now) {
			s.left = append(s.left, name)
			delete(e.left, name)
		}
	}
	for name, ls := range e.letters {
		if looked++; looked > sweepMax {
			break
		}
		if e.lines[name] == nil && ls.dead.len() == 0 {
			s.retains = append(s.retains, name)
			delete(e.letters, name)
		}
	}
	if len(e.garbage) > 0 {
		r := e.garbage[0]
		s.rubbish = r.take(sweepMax)
		r.unfade(fadeMax)
		r.clear(e, witherTurn)
		if r.empty() {
			e.garbage = e.garbage[1:]
		}
	}
	if !s.rubbish.empty() || len(s.left)+len(s.retains) > 0 || len(e.forget) > forgetMax || len(e.expunged) > forgetMax || e.dropped.n > forgetMax {
		e.enqueue(c, s)
	}
	return nil
}

// sweeping frees records that nothing refers to.
type sweeping struct {
	call *call
	rubbish
	left    []string
	retains []string // names whose dead are all forgotten
}

func (c *sweeping) tally(*batch) {}

func (c *sweeping) write(t *tables) error {
	for _, seq := range c.jobs {
		if err := t.dropJob(seq); err != nil {
			return err
		}
		if err := t.dropFlight(seq); err != nil {
			return err
		}
	}
	for _, d := range c.ended {
		if err := t.dropEnded(d); err != nil {
			return err
		}
	}
	for _, seq := range c.seqs {
		if err := t.dropDeferral(seq); err != nil {
			return err
		}
	}
	for _, number := range c.numbers {
		if err := t.dropTally(number); err != nil {
			return err
		}
	}
	for _, name := range c.left {
		if err := t.dropLeft(name); err != nil {
			return err
		}
	}
	for _, name := range c.retains {
		if err := t.dropRetention(name); err != nil {
			return err
		}
	}
	return nil
}

func (c *sweeping) done(*Engine, leaky.Instant) { c.call.settle(nil) }

func (c *sweeping) undone(e *Engine, err error) {
	e.garbage = append(e.garbage, &c.rubbish)
	c.call.settle(err)
}

func (c *sweeping) frees() bool { return true }
