package machine

import (
	"errors"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// simOverflow is the overflow of a queue, as package deferred keeps it on NATS: a stream that loses nothing that was
// acknowledged. It must hold that
//
//   - a job stored there stays until it is in the queue, has ended, or is a dead letter
//   - each job comes back once, and not after it has ended
//   - no deferrable job comes in while a job waits that was deferred before it
type simOverflow struct {
	of       *simQueue
	messages []simMessage
	order    int64     // of the last message
	aside    []*simJob // waiting there or on their way, in the order in which they were deferred
	under    int       // number of jobs being stored
	// strays counts jobs that came back without a record, by the number of the queue: they count as returned, but not
	// as deferred.
	strays map[uint64]int64
}

// simMessage is a job on the stream.
type simMessage struct {
	order  int64
	job    *simJob
	ticket queue.Ticket
	at     time.Time
	done   bool // it became a dead letter
}

// simPut stores a job on the stream.
type simPut struct {
	*simulation
	message simMessage
	to      *simOverflow
	again   bool // it may be there already
}

// putAside stores a job that was deferred now or before, or that bypasses the store.
func (s *simulation) putAside(j *simJob, ticket queue.Ticket, at time.Time, again bool) {
	p := &simPut{simulation: s, message: simMessage{job: j, ticket: ticket, at: at}, to: j.of.overflow, again: again}
	p.to.under++
	takes := s.upTo(5 * time.Millisecond)
	if s.chance(100) {
		takes = s.upTo(3 * time.Second)
	}
	s.later(takes, p.arrives)
}

func (p *simPut) arrives() {
	switch {
	case p.chance(30):
		p.note("%s cannot be put on the overflow", p.message.job)
		if p.again || p.message.ticket == "" {
			p.repeat()
		} else {
			p.withdraw()
		}
		return
	case p.chance(30):
		if p.note("nobody knows whether %s is on the overflow", p.message.job); p.IntN(2) == 0 {
			p.put()
		}
		p.repeat()
		return
	}
	p.put()
	p.to.under--
	p.stored(p.message.job)
	if p.message.ticket == "" {
		p.announce()
	}
}

func (p *simPut) put() {
	p.to.order++
	p.message.order = p.to.order
	p.to.messages = append(p.to.messages, p.message)
	p.ring(p.to.of.spec.Name)
}

// repeat appends the job again, as its producer would.
func (p *simPut) repeat() {
	p.to.under--
	again := &simProducer{simulation: p.simulation, jobs: []*simJob{p.message.job}, once: true}
	p.later(p.upTo(time.Second), again.append)
}

// withdraw reports to the store that a job was not stored after all.
func (p *simPut) withdraw() {
	var err error
	p.do(&simAct{
		of: p.simulation, what: "withdraw " + p.message.job.String(),
		do: func(now leaky.Instant) (wait uint64, _ error) {
			list := []queue.Ticketed{{Queue: p.message.job.Queue, ID: p.message.job.ID, Ticket: p.message.ticket}}
			_, wait = p.store.Withdraw(now, list)
			return wait, nil
		},
		held: func() { p.withdrawn(p.message.job) },
		told: func(e error) { err = e },
		then: func() {
			if err == nil {
				p.to.under--
			} else {
				p.later(p.upTo(500*time.Millisecond), p.withdraw)
			}
		},
	})
}

// announce reports to the store a job that bypassed it.
func (p *simPut) announce() {
	var err error
	p.do(&simAct{
		of: p.simulation, what: "announce " + p.message.job.String(),
		do:   func(now leaky.Instant) (uint64, error) { return p.store.Announce(now, p.message.job.Queue) },
		told: func(e error) { err = e },
		then: func() {
			if err != nil && !errors.Is(err, queue.ErrUnknownQueue) {
				p.later(p.upTo(500*time.Millisecond), p.announce)
			}
		},
	})
}

// putsAside notes that a job was deferred, once that holds.
func (s *simulation) putsAside(j *simJob) {
	if j.entered && !s.forgotten(j) {
		s.fail("%s is in, and was put aside", j)
	}
	if !j.aside {
		j.of.overflow.aside = append(j.of.overflow.aside, j)
	}
	j.aside, j.end = true, 0
}

// withdrawn notes that a job is not deferred after all.
func (s *simulation) withdrawn(j *simJob) { j.aside = false }

// stored notes that a job is on the stream for good: now it must not be lost.
func (s *simulation) stored(j *simJob) {
	if !j.in && j.end == 0 {
		j.in, j.lost = true, false
		s.open = append(s.open, j)
	}
}

// overtakes notes that a deferrable job came in: no job may wait that was deferred before it.
func (o *simOverflow) overtakes(s *simulation, j *simJob) {
	for len(o.aside) > 0 && (o.aside[0].entered || o.aside[0].end != 0 || !o.aside[0].aside) {
		o.aside = o.aside[1:]
	}
	if len(o.aside) > 0 && o.aside[0].asideAt < j.ordinal {
		s.fail("%s came in while %s waits on the overflow", j, o.aside[0])
	}
}

// has reports whether a job is on the stream.
func (o *simOverflow) has(j *simJob) bool {
	for i := range o.messages {
		if o.messages[i].job == j {
			return true
		}
	}
	return false
}
