package queuetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// pairOverflow is the overflow of one queue, as the pair keeps it. Jobs are never removed from it, so a readmitted job
// may be sent again.
type pairOverflow struct {
	log  []*stored
	at   int // all before it has a final outcome
	last int64
}

// stored is a job on the overflow, with the tickets of both engines.
type stored struct {
	queue.Readmission
	tickets [2]queue.Ticket
	stuck   bool // it clashed, or is an orphan
}

// ticket is a deferral that both engines recorded.
type ticket struct {
	job   queue.Job
	sides [2]queue.Ticket
}

func (p *pair) overflowOf(queueName string) *pairOverflow {
	if p.overflows[queueName] == nil {
		p.overflows[queueName] = &pairOverflow{}
	}
	return p.overflows[queueName]
}

func (s *pairOverflow) put(j queue.Job, at time.Time, tickets [2]queue.Ticket) {
	s.last += 3
	s.log = append(s.log, &stored{Readmission: queue.Readmission{Job: j, Order: s.last, At: at}, tickets: tickets})
}

// offer offers random jobs and stores most jobs that are set aside, or deferred already, on the overflow.
func (p *pair) offer() {
	list := p.someJobs()
	out := p.appendBoth("offer", list, func(e queue.Engine) ([]queue.Appended, error) { return e.Offer(p.ctx, list) })
	for i := range out[0] {
		a := out[0][i]
		if a.Ticket == "" {
			continue
		}
		t := ticket{list[i], [2]queue.Ticket{a.Ticket, out[1][i].Ticket}}
		p.tickets = append(p.tickets, t)
		// Some callers die before they store the job, or hear that storing failed.
		if rapid.IntRange(0, 5).Draw(p.T, "stored") < 5 {
			p.overflowOf(list[i].Queue).put(list[i], a.At, t.sides)
		}
	}
}

// addUnknown puts a job on the overflow while the engines are away.
func (p *pair) addUnknown() {
	j := p.someJobs()[0]
	j.Normalize()
	if j.Validate() != nil || j.ValidateAhead(p.clock.Now().Time()) != nil { // a sender checks a job before storing it
		return
	}
	age := time.Duration(rapid.IntRange(0, 70).Draw(p.T, "seconds ago")) * time.Second
	p.overflowOf(j.Queue).put(j, p.clock.Now().Time().Add(-age), [2]queue.Ticket{})
}

func (p *pair) withdraw() {
	if len(p.tickets) == 0 {
		return
	}
	var sides [2][]queue.Ticketed
	text := ""
	for range rapid.IntRange(1, 3).Draw(p.T, "tickets") {
		t := p.tickets[len(p.tickets)-1-rapid.IntRange(0, min(len(p.tickets)-1, 9)).Draw(p.T, "back")]
		id := t.job.ID
		if rapid.IntRange(0, 9).Draw(p.T, "of another") == 9 {
			id = p.id()
		}
		if strings.Contains(text+" ", " "+t.job.Queue+"/"+id+" ") {
			continue // the contract leaves open which of two gets the earlier promise
		}
		for side := range sides {
			sides[side] = append(sides[side], queue.Ticketed{Queue: t.job.Queue, ID: id, Ticket: t.sides[side]})
		}
		text += " " + t.job.Queue + "/" + id
	}
	before := p.deferredOnes(sides[0])
	p.both("withdraw"+text, func(side int, e queue.Engine) string {
		out, err := e.Withdraw(p.ctx, sides[side])
		return fmt.Sprint(out, kind(err))
	})
	for name := range before {
		if !p.isDeferred(name) {
			p.counts[name.Queue].withdrawn++
		}
	}
}

func (p *pair) cancel() { p.cancelBoth(p.queueName(), p.id()) }

func (p *pair) cancelBoth(q, id string) {
	was := p.isDeferred(queue.Ticketed{Queue: q, ID: id})
	p.both("cancel "+q+"/"+id, func(_ int, e queue.Engine) string {
		state, err := e.Cancel(p.ctx, q, id)
		return fmt.Sprint(state, kind(err))
	})
	if was {
		p.counts[q].cancelled++
	}
}

// announce announces a stray job.
func (p *pair) announce() {
	q := p.queueName()
	p.both("announce "+q, func(_ int, e queue.Engine) string { return kind(e.Announce(p.ctx, q)) })
}

// now is the engines' time.
func (p *pair) now() time.Time { return p.clock.Now().Add(p.ahead).Time() }

// readmit readmits the next jobs on a queue's overflow, or repeats earlier ones, as one holder or another.
func (p *pair) readmit() {
	q := p.queueName()
	s := p.overflowOf(q)
	req := queue.ReadmitRequest{
		Queue: q, Holder: rapid.SampledFrom([]string{"one", "one", "two"}).Draw(p.T, "holder"), Overflow: "o",
		Closed: rapid.IntRange(0, 9).Draw(p.T, "closed") == 9, Leave: rapid.IntRange(0, 3).Draw(p.T, "leave") == 3,
	}
	if rapid.IntRange(0, 29).Draw(p.T, "another overflow") == 29 {
		req.Overflow = "p"
	}
	if seen := rapid.IntRange(0, 20).Draw(p.T, "seen so many tenths ago"); seen < 20 {
		req.AsOf = p.now().Add(-time.Duration(seen) * 100 * time.Millisecond)
	}
	from := s.at
	if rapid.IntRange(0, 4).Draw(p.T, "again") == 4 {
		from = max(0, from-rapid.IntRange(1, 4).Draw(p.T, "from"))
	}
	to := min(len(s.log), from+rapid.SampledFrom([]int{2, 1, 3, 6, 0}).Draw(p.T, "jobs"))
	given := make([]*stored, to-from)
	for i, j := range s.log[from:to] {
		c := *j
		c.Done = j.stuck && rapid.IntRange(0, 3).Draw(p.T, "stuck") < 3 || rapid.IntRange(0, 19).Draw(p.T, "done") == 19
		given[i] = &c
	}
	switch rapid.IntRange(0, 9).Draw(p.T, "behind") {
	case 9:
		req.Behind = rapid.Int64Range(0, 5).Draw(p.T, "seen behind")
	case 8:
		if req.Empty = len(given) == 0; !req.Empty {
			req.Behind = int64(len(s.log) - to)
		}
	default:
		req.Behind = int64(len(s.log) - to)
	}
	p.readmitBoth(s, req, given)
}

// readmitBoth readmits jobs and mostly moves past those with a final outcome.
func (p *pair) readmitBoth(s *pairOverflow, req queue.ReadmitRequest, given []*stored) queue.Readmitted {
	var sides [2][]queue.Readmission
	var names []queue.Ticketed
	text := ""
	for _, j := range given {
		for side := range sides {
			c := j.Readmission
			c.Ticket = j.tickets[side]
			sides[side] = append(sides[side], c)
		}
		names = append(names, queue.Ticketed{Queue: req.Queue, ID: j.ID})
		text += fmt.Sprintf(
			"\n  %d %s cost %d at %s done %v until %s %s", j.Order, j.ID, j.Cost, micro(j.At), j.Done,
			micro(j.ExpiresAt), place(j.Job),
		)
	}
	before := p.deferredOnes(names)
	var res queue.Readmitted
	known := true
	p.both(fmt.Sprintf("readmit into %s as %s of %s, %d behind, closed %v, empty %v, leave %v, as of %s:%s", req.Queue,
		req.Holder, req.Overflow, req.Behind, req.Closed,
		req.Empty, req.Leave, micro(req.AsOf), text), func(side int, e queue.Engine) string {
		r := req
		r.Jobs = sides[side]
		out, err := e.Readmit(p.ctx, r)
		res, known = out, err == nil
		if err != nil || out.Busy > 0 { // the contract leaves the rest of the answer open
			return fmt.Sprint(kind(err), out.Busy)
		}
		return fmt.Sprint(
			out.Outcomes, " order ", out.Order, " room ", out.Room, " batch ", out.Batch, " deferred ", out.Deferred,
			" behind ", out.Behind, " missing ", out.Missing, " at ", micro(out.Now),
		)
	})
	if !known || res.Busy > 0 {
		return res
	}
	p.countReadmitted(s, req.Queue, res, given, before)
	if rapid.IntRange(0, 4).Draw(p.T, "dropped") < 4 && req.Overflow == "o" {
		for s.at < len(s.log) && s.log[s.at].Order <= res.Order {
			s.at++
		}
	}
	return res
}

// countReadmitted updates the books after a Readmit. before has the given jobs that were deferred until then.
func (p *pair) countReadmitted(
	s *pairOverflow, name string, res queue.Readmitted, given []*stored, before map[queue.Ticketed]bool,
) {
	b := p.counts[name]
	gone := int64(0)
	for job := range before {
		if !p.isDeferred(job) {
			gone++
		}
	}
	if res.Missing > 0 { // some of them may be among these
		gone = min(gone, b.recorded()-res.Missing-res.Deferred)
	}
	b.backOnes += gone
	for i, o := range res.Outcomes {
		switch o {
		case readmit.Returned:
			b.returned++
			b.entered++
		case readmit.TooOld, readmit.TooLate, readmit.TooLarge:
			b.deadOutside++
		case readmit.Clash, readmit.Orphaned, readmit.Unreadable:
			for _, j := range s.log {
				j.stuck = j.stuck || j.Order == given[i].Order
			}
		}
	}
	b.missing += res.Missing
	if b.recorded() != res.Deferred {
		p.Fatalf("%s: %d deferred, the books say %+v", name, res.Deferred, *b)
	}
}

// backlogged compares which queues have a backlog.
func (p *pair) backlogged() {
	p.both("backlogged", func(_ int, e queue.Engine) string {
		list, err := e.Backlogged(p.ctx, 100)
		slices.Sort(list)
		return strings.Join(list, " ") + kind(err)
	})
}

func (p *pair) id() string { return fmt.Sprint("j", rapid.IntRange(0, 30).Draw(p.T, "id")) }

func (p *pair) isDeferred(t queue.Ticketed) bool {
	i, err := p.engines[0].Job(p.ctx, t.Queue, t.ID)
	return err == nil && i.State == queue.Deferred
}

// deferredOnes returns the jobs in list that are recorded as deferred.
func (p *pair) deferredOnes(list []queue.Ticketed) map[queue.Ticketed]bool {
	found := map[queue.Ticketed]bool{}
	for _, t := range list {
		t.Ticket = ""
		if p.isDeferred(t) {
			found[t] = true
		}
	}
	return found
}

// recordLife is the minimum life of a deferred job's record, less the time it takes to readmit everything.
func (p *pair) recordLife() time.Duration { return p.retention - 20*time.Second }

// patience is how far the time may advance before a deferred job's record is too old, since the contract leaves open
// whether expired records count. A queue at its limit gives its records up; otherwise they are cancelled.
func (p *pair) patience() time.Duration {
	left := time.Hour
	now := p.clock.Now()
	for _, q := range pairQueues {
		for id := range 31 {
			i, err := p.engines[0].Job(p.ctx, q, fmt.Sprint("j", id))
			if err != nil || i.State != queue.Deferred {
				continue
			}
			its := instantOf(i.AppendedAt).Add(p.recordLife()).Sub(now)
			if its < time.Second {
				p.readmitBoth(
					p.overflowOf(q), queue.ReadmitRequest{Queue: q, Holder: "one", Overflow: "o", Empty: true}, nil,
				)
				if p.isDeferred(queue.Ticketed{Queue: q, ID: i.ID}) {
					p.cancelBoth(q, i.ID)
				}
				continue
			}
			left = min(left, its)
		}
	}
	return max(0, left)
}

// readmitAll readmits the rest of every overflow into queues with room for it, and cancels what never arrived there.
func (p *pair) readmitAll() {
	p.clock.Advance(queue.ReadmitFor) // ends every holder's claim to the way back
	for _, q := range pairQueues {
		i, err := p.engines[0].Get(p.ctx, q)
		if err != nil {
			continue
		}
		i.Spec.Rate, i.Spec.Burst, i.Spec.Capacity, i.Spec.Deferred.LowWater = leaky.Unlimited, 1, 1000, 0.9
		i.Spec.MaxBytes, i.Spec.Deferred.MaxBytes = 0, 0
		i.Spec.Adapt, i.Spec.Learn = queue.Adapt{}, ""
		i.Spec.Lanes, i.Spec.MaxInFlight, i.Spec.MaxScheduled, i.Spec.Ordered = queue.Lanes{}, 0, 0, false
		i.Spec.Limits, i.Spec.Estimate, i.Spec.Hours = nil, nil, queue.Hours{}
		p.putBoth(i.Spec, queue.AnyRevision)
		s := p.overflowOf(q)
		for n := 0; s.at < len(s.log); n++ {
			if n > 10*len(s.log) {
				p.Fatalf("%s is never readmitted, from %+v on", q, s.log[s.at])
			}
			given := make([]*stored, min(len(s.log)-s.at, 20))
			for i, j := range s.log[s.at : s.at+len(given)] {
				c := *j
				c.Done = j.stuck
				given[i] = &c
			}
			p.readmitBoth(
				s,
				queue.ReadmitRequest{
					Queue: q, Holder: "last", Overflow: "o", AsOf: p.now(),
					Behind: int64(len(s.log) - s.at - len(given)),
				},
				given,
			)
		}
		for id := range 31 {
			if t := (queue.Ticketed{Queue: q, ID: fmt.Sprint("j", id)}); p.isDeferred(t) {
				p.cancelBoth(t.Queue, t.ID)
			}
		}
	}
}

// giveUpAll reports every overflow as empty until the records of today belong to the older generation and are given up.
func (p *pair) giveUpAll() {
	for range 2 {
		p.clock.Advance(queue.OrphanAfter + time.Second)
		for _, q := range pairQueues {
			p.readmitBoth(
				p.overflowOf(q),
				queue.ReadmitRequest{Queue: q, Holder: "last", Overflow: "o", AsOf: p.now(), Empty: true}, nil,
			)
		}
	}
}
