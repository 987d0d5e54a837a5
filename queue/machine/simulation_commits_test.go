package machine

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/penstock/penstock/queue"
)

// commit collects what was decided, and starts to write it.
func (p *simStore) commit() {
	p.woken = false
	if p.broken != nil || !p.Pending() {
		return
	}
	s := p.world
	p.writing = p.Collect(p.now())
	p.tallies = s.saving(p.writing)
	s.commits++
	takes := s.upTo(s.fsync)
	switch {
	case s.chance(40 / s.trouble):
		takes = s.upTo(25 * s.fsync)
	case s.chance(1000):
		takes = s.upTo(3 * time.Second)
	}
	if s.traced {
		s.note("commit %d takes %v", p.writing.Number, takes)
	}
	p.later(takes, p.written)
}

// written ends a commit in progress.
func (p *simStore) written() {
	c := p.writing
	p.writing = nil
	if err := p.write(c); err != nil {
		p.failed(c, err)
		return
	}
	p.Durable(c.Number, p.now())
	p.settle(c.Number, nil)
	p.world.checkCounts()
	p.world.checkBatches()
	p.signal()
	p.world.checkSaved(c)
}

// write writes a commit to the disk, or fails at any of its effects, or after them.
func (p *simStore) write(c *Commit) error {
	s := p.world
	switch {
	case s.chance(400 / s.trouble):
		return p.breakOff(c, syscall.ENOSPC)
	case s.chance(2000 / s.trouble):
		return p.breakOff(c, syscall.EIO)
	case s.chance(2000 / s.trouble):
		s.note("commit %d fails, and is on disk", c.Number)
		p.keep(c)
		return []error{syscall.ENOSPC, syscall.EIO}[s.IntN(2)]
	}
	p.keep(c)
	return nil
}

// keep writes a commit.
func (p *simStore) keep(c *Commit) {
	err := p.world.disk.Update(func(tx Transaction) error { return c.Write(tx, writeOptions) })
	if err != nil {
		panic(err)
	}
	saved(p.tallies)
}

// breakOff begins to write a commit of which nothing is kept.
func (p *simStore) breakOff(c *Commit, err error) error {
	s, left := p.world, p.world.IntN(len(c.list)+1)
	s.note("commit %d fails at effect %d of %d: %v", c.Number, left, len(c.list), err)
	return s.disk.Update(func(tx Transaction) error {
		_ = c.Write(&brokenTx{tx, &left, err}, writeOptions)
		return err
	})
}

// failed continues without the commits that are not durable, as boltq does.
func (p *simStore) failed(c *Commit, err error) {
	s := p.world
	onDisk := p.lastOnDisk()
	for i := range p.waiting {
		if p.waiting[i].commit <= onDisk {
			p.waiting[i].holds(false)
		} else {
			p.waiting[i].undone()
		}
	}
	now := p.time()
	next := p.Successor()
	p.load(next, now)
	next.CarryOver(p.Machine, now)
	p.Machine, p.saved = next, 0
	s.undone++
	s.rampsRestart()
	s.checkKept()
	if errors.Is(err, syscall.ENOSPC) && onDisk < c.Number {
		p.fullUntil = s.at.Add(250 * time.Millisecond)
		p.again(c)
		return
	}
	p.broken = err
	s.later(s.upTo(time.Second), func() {
		if !p.dead {
			s.restart()
		}
	})
	unknown := fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, err)
	p.settle(c.Number, unknown)
	p.settle(math.MaxUint64, fmt.Errorf("%w: %w", queue.ErrUnavailable, err))
}

// lastOnDisk returns the last commit that is on disk.
func (p *simStore) lastOnDisk() (last uint64) {
	p.read(func(tx Transaction) {
		var err error
		if last, err = LastCommit(tx); err != nil {
			panic(err)
		}
	})
	return last
}

// again repeats calls that were undone for lack of room, if they were decided when there seemed to be some.
func (p *simStore) again(c *Commit) {
	waiting := p.waiting
	p.waiting = nil
	for _, w := range waiting {
		if w.commit == c.Number && !c.HadRoom || w.tries == maxSimTries {
			w.answered(queue.ErrStoreFull)
			continue
		}
		w.tries++
		p.world.later(p.world.upTo(time.Millisecond), func() {
			if p.dead {
				w.answered(queue.ErrOutcomeUnknown)
				return
			}
			p.do(w)
		})
	}
}

// restart kills the process and starts another one. A commit in progress may be on disk.
func (s *simulation) restart() {
	s.kills++
	p := s.store
	p.dead = true
	if c := p.writing; c != nil && s.IntN(2) == 0 {
		if s.IntN(2) == 0 {
			s.note("killed behind commit %d", c.Number)
			p.keep(c)
		} else {
			_ = p.breakOff(c, errKilled)
		}
	}
	onDisk := p.lastOnDisk()
	for i := range p.waiting {
		if c := &p.waiting[i]; c.commit <= onDisk && c.err == nil && p.broken == nil {
			c.holds(false)
		} else {
			c.undone()
		}
	}
	s.note("kill and restart")
	// Uncertainty about an embedded store's clock is forgotten with its process. reigns says what Redis may lose.
	for _, d := range s.drainers {
		if d.alive && d.far > 0 {
			d.die()
		}
	}
	if s.judgeQuotas(); p.clock.Ahead > 0 { // after a jump back, the clock goes on from the last commit
		s.newSegments(true)
	}
	clear(s.fences)
	s.rampsRestart()
	s.begin()
	s.forgetTakes()
	s.checkKept()
	s.checkCounts()
	s.checkBatches()
	waiting := p.waiting
	p.waiting = nil
	for _, c := range waiting {
		c.answered(queue.ErrOutcomeUnknown)
	}
}

// brokenTx is a transaction that fails after that many effects.
type brokenTx struct {
	Transaction
	left *int
	err  error
}

func (tx *brokenTx) Table(name []byte) Table { return &brokenTable{tx.Transaction.Table(name), tx} }

type brokenTable struct {
	Table
	tx *brokenTx
}

func (t *brokenTable) Put(key, value []byte) error {
	if *t.tx.left--; *t.tx.left < 0 {
		return t.tx.err
	}
	return t.Table.Put(key, value)
}

func (t *brokenTable) Delete(key []byte) error {
	if *t.tx.left--; *t.tx.left < 0 {
		return t.tx.err
	}
	return t.Table.Delete(key)
}
