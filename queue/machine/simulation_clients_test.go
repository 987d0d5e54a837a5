package machine

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// simProducer appends jobs, and repeats a call of which it does not know the outcome.
type simProducer struct {
	*simulation
	jobs []queue.Job
}

func (p *simProducer) append() {
	if p.ending && p.jobs == nil {
		return
	}
	if p.jobs == nil {
		for range p.IntN(8) + 1 {
			p.jobs = append(p.jobs, p.newJob())
		}
	}
	p.calls, p.operations = p.calls+1, p.operations+len(p.jobs)
	p.beforeAppend()
	answers, err := p.Append(p.ctx, p.jobs)
	p.checkCapacity()
	if p.chance(100) {
		p.note("the reply to an append is lost")
		answers, err = nil, queue.ErrOutcomeUnknown
	}
	if err != nil && answers == nil {
		p.uncertain(p.jobs)
		p.later(p.upTo(time.Second), p.append)
		return
	}
	var again []queue.Job
	for i := range answers {
		p.note("append %s/%s: %v %v", p.jobs[i].Queue, p.jobs[i].ID, answers[i].Outcome, answers[i].Err)
		if p.appended(&p.jobs[i], &answers[i]) {
			again = append(again, p.jobs[i])
		}
	}
	p.uncertain(again)
	p.jobs = again
	p.later(p.upTo(500*time.Millisecond), p.append)
}

// simDrainer takes jobs at their departures, as package drain does.
type simDrainer struct {
	*simulation
	name        string
	life        int // of how many processes this is the last
	alive       bool
	frozenUntil leaky.Instant
	number      uint64
	busy        int
	request     queue.ReserveRequest
	repeat      bool // the reply to the last request was lost
}

const simHandlers = 8

func (d *simDrainer) begin() {
	d.life++
	d.alive, d.busy, d.repeat = true, 0, false
	d.reserve()
}

func (d *simDrainer) die() {
	d.note("%s dies", d.name)
	d.alive = false
	d.simulation.later(d.upTo(5*time.Second), d.begin)
}

// later does something unless the process has died by then; while it is frozen that waits.
func (d *simDrainer) later(after time.Duration, do func()) {
	life := d.life
	var whenThawed func()
	whenThawed = func() {
		switch {
		case d.life != life || !d.alive:
		case d.frozenUntil > d.at:
			d.simulation.later(d.frozenUntil.Sub(d.at), whenThawed)
		default:
			do()
		}
	}
	d.simulation.later(after, whenThawed)
}

func (d *simDrainer) reserve() {
	if !d.repeat {
		d.number++
		d.request = queue.ReserveRequest{
			Client: queue.Client{ID: fmt.Sprint(d.name, ".", d.life), Name: d.name, Version: "1"},
			Number: d.number, Max: simHandlers - d.busy,
		}
	}
	d.repeat = false
	asked := d.at
	d.later(d.upTo(time.Millisecond), func() { // the way there
		d.calls++
		got, err := d.Reserve(d.ctx, d.request)
		d.operations += len(got.Jobs)
		for i := range got.Jobs {
			d.granted(&got.Jobs[i])
		}
		d.later(d.upTo(2*time.Millisecond), func() { // and back
			if err != nil || d.chance(200) {
				d.note("%s has no reply: %v", d.name, err)
				d.repeat = true
				d.later(d.upTo(200*time.Millisecond), d.reserve)
				return
			}
			for i := range got.Jobs {
				d.take(&got.Jobs[i], asked)
			}
			next := min(got.Next, 2*time.Second)
			if d.busy >= simHandlers {
				next = 20 * time.Millisecond
			}
			d.later(next+d.upTo(50*time.Millisecond), d.reserve)
		})
	})
}

// take waits for a job's departure. It may start from the departure counted from the reply, until slack after the
// departure counted from the request.
func (d *simDrainer) take(r *queue.Reservation, asked leaky.Instant) {
	d.busy++
	until := asked.Add(r.In + simSlack)
	lease := queue.Lease{Queue: r.Queue, ID: r.ID, Fence: r.Fence}
	d.later(max(0, r.In), func() {
		if d.at >= until || d.chance(300) {
			d.settle(queue.Settlement{Lease: lease, Verdict: queue.Release})
			return
		}
		d.started(r)
		took := d.upTo(300 * time.Millisecond)
		if d.chance(50) {
			took = d.upTo(4 * time.Second) // longer than the lease, now and then
		}
		d.later(took, func() { d.settle(d.verdict(lease)) })
	})
}

func (d *simDrainer) verdict(l queue.Lease) queue.Settlement {
	s := queue.Settlement{Lease: l, Verdict: queue.Deliver}
	if d.faults {
		switch d.IntN(40) {
		case 0, 1:
			s.Verdict, s.After, s.Trouble = queue.Fail, d.upTo(5*time.Second), d.IntN(2) == 0
		case 2:
			s.Verdict = queue.Bury
		case 3:
			s.Verdict, s.After = queue.Throttle, d.upTo(2*time.Second)
		case 4:
			s.Verdict = queue.Down
		case 5:
			s.Verdict = queue.Hold
		}
	}
	return s
}

func (d *simDrainer) settle(s queue.Settlement) {
	d.calls, d.operations = d.calls+1, d.operations+1
	answers, err := d.Settle(d.ctx, []queue.Settlement{s})
	if err == nil {
		err = answers[0].Err
	}
	if err == nil {
		d.note("%s settles %s/%s %v: %+v", d.name, s.Queue, s.ID, s.Verdict, answers[0].State)
		d.settled(&s, &answers[0])
	}
	if err != nil || d.chance(200) {
		d.later(d.upTo(500*time.Millisecond), func() { d.settle(s) })
		return
	}
	d.busy--
}

// operate is what a person does.
func (s *simulation) operate() {
	if s.ending {
		s.decideHeld()
		s.later(time.Second, s.operate)
		return
	}
	s.calls++
	q := &s.queues[s.IntN(len(s.queues))]
	name := q.spec.Name
	switch s.IntN(8) {
	case 0:
		spec := q.spec
		spec.Rate = simRates[s.IntN(len(simRates))]
		spec.Capacity = s.Int64N(60) + 1
		_, err := s.Put(s.ctx, spec, queue.AnyRevision)
		s.note("put %s %v capacity %d: %v", name, spec.Rate, spec.Capacity, err)
		if err == nil || errors.Is(err, queue.ErrOutcomeUnknown) {
			s.changed(q, spec, err == nil)
		}
	case 1:
		s.note("pause %s: %v", name, s.Pause(s.ctx, name, queue.Pause{Reason: "by the operator"}))
	case 2, 3:
		s.note("resume %s: %v", name, s.Resume(s.ctx, name))
	case 4:
		if id := s.some(name); id != "" {
			state, err := s.Cancel(s.ctx, name, id)
			s.note("cancel %s/%s: %v %v", name, id, state, err)
			s.cancelled(name, id, state, err)
		}
	case 5:
		s.decideHeld()
	case 6:
		_ = s.do(s.ctx, func(leaky.Instant) error { s.SaveTallies(); return nil })
	case 7:
		s.checkCounts()
	}
	s.later(s.upTo(time.Second), s.operate)
}
