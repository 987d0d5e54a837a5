package machine

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// Rehearsal is a queue as an Info shows it, without its store. It computes by the machine's rules when single jobs will
// depart, assuming no new jobs and no failures. Forecast is for queues of any size, and does not know single jobs.
type Rehearsal struct {
	queue *queueState
	goes  leaky.Instant // from when on jobs depart, considering pauses and the stop
	load  groupLoad
	costs costBounds
	// State after the jobs that Depart has let go: when the last one was granted, the number of these jobs minus the
	// number of jobs that wait now, their cost, and their lanes.
	clock          leaky.Instant
	departed, cost int64
	lanes          map[string]*rehearsedLane
}

// NewRehearsal returns the rehearsal of a queue. A rate that is not nil replaces the queue's. Errors: an
// *invalid.Error.
func NewRehearsal(i *queue.Info, rate *leaky.Rate) (*Rehearsal, error) {
	now := leaky.Instant(i.Now.UnixMicro())
	q, err := shownQueue(i, now)
	if err != nil {
		return nil, err
	}
	if rate != nil {
		other := q.pacer
		other.Rate = *rate
		if err := other.Validate(); err != nil {
			return nil, invalid.Errorf("rate", "", "%v", err)
		}
		q.pacer, q.bucket = other, q.pacer.Change(q.bucket, other, now)
	}
	f := &Rehearsal{queue: q, lanes: map[string]*rehearsedLane{}, departed: -i.Waiting}
	head := i
	switch {
	case i.Group.Children > 0:
		q.group = newGroup(q)
	case i.Parent != nil:
		head = i.Parent
		p, err := shownQueue(head, now)
		if err != nil {
			return nil, err
		}
		p.group = newGroup(p)
		q.group = p.group
	}
	f.goes, _ = q.resumesAt(now)
	f.clock = f.goes
	f.costs.groupMaxCost = head.Group.MaxCost
	f.load = groupLoad{others: head.Group.Weight, waiting: head.Group.Waiting}
	if i.Spec.Pull {
		f.load.waiting += i.Waiting // the group does not count them
	} else if i.Waiting > 0 {
		f.load.others -= i.Spec.Share()
	}
	return f, nil
}

// shownQueue returns the state of a queue as an Info shows it.
func shownQueue(i *queue.Info, now leaky.Instant) (*queueState, error) {
	q := (&Machine{}).newQueueState(1, i.Spec)
	q.pacer.Rate, q.bucket, q.pause = i.Rate, i.Bucket, pauseOf(i.Pause)
	q.hours = newOpenHours(i.Spec.Hours, nil)
	if i.Stop.On() {
		q.receiver.stop = instantOf(i.Stop.Until)
	}
	var err error
	if q.limits, err = carryOverLimits(nil, i.Spec.Limits, nil, now); err != nil {
		return nil, err
	}
	for n := range q.limits[:min(len(q.limits), len(i.Limits))] {
		q.limits[n].setShown(i.Limits[n])
	}
	q.repairWindows(now)
	return q, nil
}

// groupETA returns when the group lets a job depart with that much cost ahead of it in the queue. more is how many
// other jobs the group has in addition to those waiting now.
func (f *Rehearsal) groupETA(ahead, more int64) leaky.Instant {
	load := f.load
	load.waiting += more
	return f.queue.groupVerdict(load, f.costs, ahead, 0, f.goes, f.clock).at
}

// Goes returns from when on jobs depart, considering pauses and the receiver's stop; now if a pause has no end.
func (f *Rehearsal) Goes() leaky.Instant { return f.goes }

// Slot returns when the next job departs, as far as the queue itself is concerned.
func (f *Rehearsal) Slot() leaky.Instant { return f.queue.memberOpens(f.clock) }

// Depart lets the next job of a lane go, not before due, and returns when it departs. If the job expires first, Depart
// returns when it would have departed. An expires of 0 means never.
func (f *Rehearsal) Depart(key string, due, expires leaky.Instant, cost int64) (at leaky.Instant, expired bool) {
	q, ln, now := f.queue, f.lane(key), max(f.clock, due)
	of := bill{queue: q, cost: cost}
	var d, inLane leaky.Instant
	for afforded := false; !afforded; {
		if d = q.memberOpens(now); d > now.Add(queue.Horizon) {
			q.repairBuckets(now)
			now = d.Add(-queue.Horizon) // a drainer asks again then
			continue
		}
		inLane = max(d, ln.last)
		inLane = ln.opens(inLane, inLane)
		ln.expects(of)
		inLane = ln.opens(inLane, inLane)
		at = ln.commonHours(max(inLane, f.groupETA(f.cost, f.departed)), now)
		if expires != 0 && expires < at {
			return at, true
		}
		afforded = q.isParent() || q.hasCredit(nil, d, of) && q.affords(d, of)
	}
	if !q.isParent() {
		q.noteDeparture(d)
		q.take(d, now, of)
	}
	ln.take(inLane, inLane, of)
	ln.last = inLane
	f.clock, f.departed, f.cost = now, f.departed+1, f.cost+cost
	return at, false
}

// rehearsedLane is a lane, and when its last job departed as far as the lane is concerned.
type rehearsedLane struct {
	lane
	last leaky.Instant
}

// lane returns the lane of a key. Nothing has departed from it except through Depart.
func (f *Rehearsal) lane(key string) *rehearsedLane {
	ln := f.lanes[key]
	if ln == nil {
		ln = &rehearsedLane{lane: lane{queue: f.queue, key: key}}
		f.lanes[key] = ln
	}
	return ln
}
