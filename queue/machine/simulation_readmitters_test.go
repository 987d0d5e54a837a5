package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// simReadmitter takes the jobs of a queue back from the overflow, as package deferred does. It asks for room, reads the
// first messages, hands them in, and removes the ones that were taken. It may die or freeze between any two of these
// steps.
type simReadmitter struct {
	*simulation
	of    *simOverflow
	name  string
	life  int
	doubt string    // name of the stream while its order is not trusted
	trust int64     // the order as this process left it
	now   time.Time // of the store's last answer
	asOf  time.Time // its value when the stream was last read
	next  uint64    // the number of the next look that is due
}

// simFew is how many jobs are handed in while there is no room, to see whether they are too old.
const simFew = 4

// ring makes the readmitter look at a queue's overflow.
func (s *simulation) ring(name string) {
	for _, r := range s.readmitters {
		if r.of.of.spec.Name == name {
			r.lookIn(r.upTo(3 * time.Millisecond))
		}
	}
}

// lookIn looks after a delay, replacing any planned look.
func (r *simReadmitter) lookIn(d time.Duration) {
	r.next++
	next := r.next
	r.later(d, func() {
		if r.next == next {
			r.look()
		}
	})
}

// die starts another process.
func (r *simReadmitter) die() {
	r.note("the readmitter %s dies", r.name)
	r.life++
	r.doubt, r.trust, r.now, r.asOf = "", 0, time.Time{}, time.Time{}
	r.lookIn(r.upTo(3 * time.Second))
}

// look asks for room, or reports an empty overflow.
func (r *simReadmitter) look() {
	r.asOf = r.now
	if len(r.of.messages) == 0 {
		r.call(queue.ReadmitRequest{Empty: true, Leave: true}, nil, func(c *simReadmit) {
			if c.said.Deferred+c.said.Behind > 0 {
				r.lookIn(r.upTo(2 * time.Second))
			}
		})
		return
	}
	r.call(queue.ReadmitRequest{Behind: int64(len(r.of.messages))}, nil, func(c *simReadmit) {
		messages := slices.Clone(r.of.messages[:min(len(r.of.messages), r.IntN(12)+1)])
		r.step(func() { r.hand(messages, &c.said) })
	})
}

// step continues after a moment, if the process still exists. Now and then it freezes for longer than it holds the
// right to readmit.
func (r *simReadmitter) step(do func()) {
	life, takes := r.life, r.upTo(2*time.Millisecond)
	if r.chance(60) {
		takes = r.upTo(8 * time.Second)
	}
	r.later(takes, func() {
		if r.life == life {
			do()
		}
	})
}

// hand hands in messages that were read, as far as there is room.
func (r *simReadmitter) hand(messages []simMessage, a *queue.Readmitted) {
	if len(messages) == 0 {
		r.lookIn(time.Millisecond)
		return
	}
	below := a.Order
	if first := messages[0].order; first <= below && r.trust != below {
		// A process seems to have been killed before it removed what it had taken: each job is judged by its id.
		r.doubt, below = fmt.Sprint("~", r.name, r.counted), 0
	}
	for len(messages) > 0 && messages[0].order <= below {
		messages = messages[1:]
	}
	n := min(len(messages), int(max(a.Room, simFew)))
	req := queue.ReadmitRequest{Behind: int64(len(r.of.messages) - n), Closed: r.chance(50)}
	req.Behind = max(0, req.Behind)
	r.call(req, messages[:n], func(c *simReadmit) {
		r.trust = c.said.Order
		r.step(func() { r.remove(messages, c) })
	})
}

// remove removes what was taken, and continues.
func (r *simReadmitter) remove(messages []simMessage, c *simReadmit) {
	final := 0
	for final < len(c.said.Outcomes) && c.said.Outcomes[final].Final() {
		final++
	}
	if final < len(c.said.Outcomes) && c.said.Outcomes[final] == readmit.Orphaned {
		m := &messages[final]
		r.note("%s, order %d, becomes a dead letter", m.job, m.order)
		m.done = true
		r.step(func() { r.hand(messages[final:], &c.said) })
		return
	}
	until := int64(0)
	if final > 0 {
		until = c.messages[final-1].order
	}
	for len(r.of.messages) > 0 && r.of.messages[0].order <= until {
		r.of.messages = r.of.messages[1:]
	}
	switch rest := messages[final:]; {
	case final < len(c.messages):
		r.lookIn(r.upTo(time.Second)) // there is no room, or the readmission hours have ended
	case len(rest) > 0 && c.said.Room > 0:
		r.step(func() { r.hand(rest, &c.said) })
	default:
		r.lookIn(r.upTo(100 * time.Millisecond))
	}
}

// call is one call of Readmit, whose answer may be lost.
func (r *simReadmitter) call(req queue.ReadmitRequest, messages []simMessage, then func(*simReadmit)) {
	req.Queue, req.Holder, req.Overflow = r.of.of.spec.Name, fmt.Sprint(r.name, ".", r.life), "stream"+r.doubt
	req.AsOf = r.asOf
	for _, m := range messages {
		req.Jobs = append(req.Jobs, queue.Readmission{
			Job: m.job.Job, Order: m.order, Ticket: m.ticket, At: m.at, Done: m.done,
		})
	}
	k, err := NewReadmission(req)
	if err != nil {
		r.fail("%v", err)
		return
	}
	r.operations += len(messages)
	r.do(&simReadmit{of: r, life: r.life, request: k, messages: messages, then: then})
}

// simReadmit is one call of Readmit.
type simReadmit struct {
	of       *simReadmitter
	life     int
	request  *Readmission
	messages []simMessage
	then     func(*simReadmit)
	said     queue.Readmitted
	number   uint64 // of the queue
	strays   int64  // jobs that came without a record
}

func (c *simReadmit) decide(now leaky.Instant) (wait uint64, err error) {
	q, recorded := c.of.own(c.of.of.of), make([]bool, len(c.messages))
	for i := range c.messages {
		if q != nil {
			_, d := q.deferral(c.messages[i].job.ID, now)
			recorded[i] = d != nil
		}
	}
	c.said, wait, err = c.of.store.Readmit(now, c.request)
	c.strays = 0
	for i, o := range c.said.Outcomes {
		if !recorded[i] && (o == readmit.Returned || o == readmit.TooOld || o == readmit.TooLate) {
			c.strays++
		}
		if o == readmit.Returned {
			c.of.decisions++
			c.messages[i].job.ordinal = c.of.decisions
		}
	}
	if q != nil {
		c.number = q.number
		c.of.of.strays[c.number] += c.strays
	}
	return wait, err
}

func (c *simReadmit) holds(bool) {
	for i, o := range c.said.Outcomes {
		c.of.readmitted(&c.messages[i], o)
		if i > 0 && !c.said.Outcomes[i-1].Final() && o != readmit.NotYet {
			c.of.fail("%s is %v behind one that could not pass", c.messages[i].job, o)
		}
	}
	if c.said.Missing > 0 {
		c.of.note("%d are missing", c.said.Missing)
		c.of.of.aside = nil
	}
}

func (c *simReadmit) undone() { c.of.of.strays[c.number] -= c.strays }

func (c *simReadmit) answered(err error) {
	r := c.of
	switch {
	case r.life != c.life:
	case err != nil || r.chance(50):
		r.note("%s has no reply to its readmission: %v", r.name, err)
		r.trust = 0
		r.lookIn(r.upTo(500 * time.Millisecond))
	case c.said.Busy > 0:
		r.now = c.said.Now
		r.lookIn(c.said.Busy + r.upTo(100*time.Millisecond))
	default:
		r.now = c.said.Now
		c.then(c)
	}
}

// readmitted notes what became of a job on its way back, once that holds.
func (s *simulation) readmitted(m *simMessage, o readmit.Outcome) {
	j := m.job
	known := j.entered && !s.forgotten(j)
	if s.traced && o != readmit.NotYet {
		s.note("readmit %s, order %d: %v", j, m.order, o)
	}
	switch o {
	case readmit.Returned:
		if known || j.end != 0 && !s.forgotten(j) {
			s.fail("%s comes back once more", j)
		}
		if q := s.own(j.of); q != nil && m.ticket != "" && q.number > parseTicket(m.ticket).queue {
			s.fail("%s comes back into a queue that did not put it aside", j)
		}
		s.enters(j)
	case readmit.TooOld, readmit.TooLate:
		if known {
			s.fail("%s is in, and %v", j, o)
		}
		if !j.in {
			s.open = append(s.open, j)
		}
		j.in = true
		s.sees(j, queue.Dead)
	case readmit.Passed:
		if !j.entered && j.end == 0 && j.in && !m.done {
			s.fail("%s is dropped from the overflow, and is nowhere else", j)
		}
	case readmit.Orphaned:
		if q := s.own(j.of); q != nil && q.number == parseTicket(m.ticket).queue {
			s.fail("%s is %v, and its queue is the one that put it aside", j, o)
		}
		j.in = j.entered // else it becomes a dead letter of the overflow
	case readmit.NotYet:
	default:
		s.fail("%s is %v", j, o)
	}
}
