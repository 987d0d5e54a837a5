package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// simStore is a process that has the store, as boltq does. A call is decided at once. One commit at a time is being
// written while other calls are decided. An answer waits for its commit.
type simStore struct {
	world *simulation
	*Machine
	clock     Clock         // the process vouches for it
	looked    leaky.Instant // its last reading
	writing   *Commit       // being written
	tallies   []simSaved    // tallies in it
	woken     bool          // a commit is about to be collected
	saving    bool          // takes are about to be saved
	saved     uint64        // the commit and time of the last save
	savedAt   leaky.Instant
	waiting   []waitingCall // in order of decision
	fullUntil leaky.Instant // calls that need room are refused until then
	broken    error         // why nothing can be decided any more
	dead      bool
}

// simCall is a call of the store.
type simCall interface {
	// decide lets the machine decide, and returns the commit that the answer waits for.
	decide(now leaky.Instant) (wait uint64, err error)
	// holds is called once when the decision can no longer vanish, whether or not the caller gets the answer. live is
	// false if it was found on disk after a failure: nobody was answered, and memory does not have it.
	holds(live bool)
	// undone is called when the decision has vanished.
	undone()
	// answered is called with the caller's result.
	answered(err error)
}

// waitingCall is a call that was decided and waits for its commit.
type waitingCall struct {
	simCall
	commit uint64
	err    error
	tries  int
}

var errKilled = errors.New("killed")

// begin starts a process that has the store.
func (s *simulation) begin() {
	p := &simStore{world: s, Machine: New(uint64(s.kills))} // epochs are unique
	p.maxBatches = simMaxBatches
	p.read(func(tx Transaction) {
		var err error
		if p.clock, err = ClockOf(tx); err != nil {
			panic(err)
		}
		now := p.look(0)
		p.Ahead = p.clock.Ahead
		p.load(p.Machine, now)
	})
	s.store = p
	for more := true; more; {
		now := p.now()
		_, more = p.TakeBackPersisted(now)
		if c := p.Collect(now); c != nil {
			p.keep(c)
			p.Durable(c.Number, now)
		}
	}
}

// time returns the reading of the clock.
func (p *simStore) time() leaky.Instant {
	return p.look(p.clock.Last + p.world.at - p.looked)
}

func (p *simStore) look(latest leaky.Instant) leaky.Instant {
	p.looked = p.world.at
	return p.clock.Look(p.world.at+p.world.jumped, latest)
}

// now returns the time of the next decision.
func (p *simStore) now() leaky.Instant {
	t := p.time()
	p.Ahead = p.clock.Ahead
	if err := p.Tick(t); err != nil {
		p.world.fail("the calendar: %v", err)
	}
	p.Environment = Environment{RoomHeard: true, Bytes: 1 << 30, Ahead: p.clock.Ahead}
	if p.world.at < p.fullUntil {
		p.Full = queue.ErrStoreFull
	}
	return t
}

func (p *simStore) read(do func(Transaction)) {
	_ = p.world.disk.View(func(tx Transaction) error { do(tx); return nil })
}

func (p *simStore) load(m *Machine, now leaky.Instant) {
	p.read(func(tx Transaction) {
		if err := m.Load(context.Background(), tx, now); err != nil {
			panic(err)
		}
	})
}

// do decides a call, and answers it when that is durable.
func (s *simulation) do(c simCall) {
	s.calls++
	s.store.do(waitingCall{simCall: c, tries: 1})
}

// maxSimTries is how often one call is decided at most, as in boltq.
const maxSimTries = 10

func (p *simStore) do(c waitingCall) {
	if p.broken != nil {
		c.answered(fmt.Errorf("%w: %w", queue.ErrUnavailable, p.broken))
		return
	}
	c.commit, c.err = c.decide(p.now())
	p.world.checkCapacity()
	if c.commit == 0 {
		if c.err == nil {
			c.holds(true)
		}
		p.signal()
		c.answered(c.err)
		return
	}
	if c.commit <= p.durable || c.commit > p.current.Number {
		p.world.fail("an answer waits for commit %d, and %d is durable, %d the next", c.commit, p.durable,
			p.current.Number)
	}
	p.waiting = append(p.waiting, c)
	p.signal()
}

// signal notifies others of what was decided, and starts the commit.
func (p *simStore) signal() {
	_, rooms := p.Signals()
	for _, name := range rooms {
		p.world.ring(name)
	}
	if p.broken == nil && p.writing == nil && !p.woken && p.Pending() {
		p.woken = true
		p.later(p.world.upTo(300*time.Microsecond), p.commit)
	}
	if p.UnsavedTallies() && !p.saving {
		p.saving = true
		p.later(500*time.Millisecond, p.save)
	}
}

// save saves takes, as boltq's saver does.
func (p *simStore) save() {
	p.saving = false
	if p.broken != nil {
		return
	}
	now := p.now()
	for p.ForgetExpiredTallies(now) {
	}
	if p.Full != nil {
		p.saving = true
		p.later(500*time.Millisecond, p.save)
		return
	}
	if wait, more := p.SaveTallies(); !more {
		p.saved, p.savedAt = max(p.saved, wait), now
	}
	p.signal()
}

// later does something unless the process is dead by then.
func (p *simStore) later(d time.Duration, do func()) {
	p.world.later(d, func() {
		if !p.dead {
			do()
		}
	})
}

// settle answers the calls that wait for a commit up to a number. An error means that the outcome is unknown.
func (p *simStore) settle(number uint64, err error) {
	var ready []waitingCall
	left := p.waiting[:0]
	for _, c := range p.waiting {
		if c.commit <= number {
			ready = append(ready, c)
		} else {
			left = append(left, c)
		}
	}
	clear(p.waiting[len(left):])
	p.waiting = left
	for i := range ready {
		if err == nil && ready[i].err == nil {
			ready[i].holds(true)
		}
	}
	for i := range ready {
		if err != nil {
			ready[i].answered(err)
		} else {
			ready[i].answered(ready[i].err)
		}
	}
}

// strike causes a fault.
func (s *simulation) strike() {
	if s.ending {
		return
	}
	switch s.IntN(6) {
	case 0:
		s.restart()
	case 1:
		if s.IntN(2) == 0 {
			s.jumped -= leaky.Instant(s.upTo(time.Minute).Microseconds())
			s.note("the clock jumps back")
			s.rampsGoBack()
		} else {
			by := s.upTo(time.Hour)
			s.jumped += leaky.Instant(by.Microseconds())
			s.note("the clock jumps forward")
			if by > followed { // paces do not notice it
				s.newWindows()
				break
			}
		}
		s.newSegments(true)
	case 2:
		if d := s.drainers[s.IntN(len(s.drainers))]; d.alive {
			d.die()
		}
	case 3:
		d := s.drainers[s.IntN(len(s.drainers))]
		d.frozenUntil = s.at.Add(s.upTo(20 * time.Second))
		s.note("%s freezes until %v", d.name, d.frozenUntil.Sub(noon))
	case 4:
		s.store.fullUntil = s.at.Add(s.upTo(3 * time.Second))
		s.note("the disk is nearly full until %v", s.store.fullUntil.Sub(noon))
	case 5:
		s.readmitters[s.IntN(len(s.readmitters))].die()
	}
	s.later(s.upTo(10*time.Second), s.strike)
}
