package quote

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// etaModel is what decides when jobs leave a queue, as an Info shows it. It estimates as the engines do.
type etaModel struct {
	own   *paces // nil for a parent: its paces are those of the group
	group *paces // nil if there is none
	// Of a group: how many other members have waiting jobs, how many wait in all, and their greatest cost.
	otherMembers, waiting, maxCost int64
}

// paces is a bucket, and the limits beside it.
type paces struct {
	leaky.Pacer
	bucket leaky.Bucket
	limits []limitPace
}

// limitPace is a further pace if quota.Max is 0.
type limitPace struct {
	leaky.Pacer
	quota leaky.Quota
	queue.LimitState
}

// newETAModel returns the model for jobs of that cost, at another rate if that is not nil. Its error is a
// *FieldError.
func newETAModel(i *queue.Info, cost int64, rate *leaky.Rate) (etaModel, error) {
	own, err := pacesOf(i, rate)
	if err != nil {
		return etaModel{}, err
	}
	head := i
	e := etaModel{own: own}
	switch {
	case i.Group.Children > 0:
		e = etaModel{group: own}
	case i.Parent != nil:
		head = i.Parent
		if e.group, err = pacesOf(head, nil); err != nil {
			return etaModel{}, err
		}
	default:
		own.rise(i)
		return e, nil
	}
	if head != i { // a parent's stop concerns only its own jobs
		own.rise(i)
	}
	e.otherMembers, e.waiting, e.maxCost = head.Group.Members, head.Group.Waiting, max(1, cost, head.Group.MaxCost)
	if i.Waiting > 0 {
		e.otherMembers--
	}
	return e, nil
}

// pacesOf returns the paces of the queue, at another rate if that is not nil.
func pacesOf(i *queue.Info, rate *leaky.Rate) (*paces, error) {
	p := &paces{Pacer: pacer(i), bucket: i.Bucket}
	if rate != nil {
		other := p.Pacer
		other.Rate = *rate
		if err := other.Validate(); err != nil {
			return nil, queue.FieldErrorf("rate", "", "%v", err)
		}
		p.Pacer, p.bucket = other, p.Change(p.bucket, other, instant(i))
	}
	for n := range i.Spec.Limits {
		of := &i.Spec.Limits[n]
		l := limitPace{Pacer: of.Pacer()}
		if n < len(i.Limits) {
			l.LimitState = i.Limits[n]
		}
		if !of.Paced() {
			calendar, err := of.Calendar(i.Now)
			if err != nil {
				return nil, err
			}
			l.quota = leaky.Quota{Max: of.Quota.Max, Calendar: calendar}
		}
		p.limits = append(p.limits, l)
	}
	return p, nil
}

// pacer is the rule by which a queue lets jobs out at present.
func pacer(i *queue.Info) leaky.Pacer {
	p := i.Spec.Pacer(queue.Horizon)
	p.Rate = i.Rate
	return p
}

// rise adjusts the paces of a stopped queue, which earn nothing meanwhile.
func (p *paces) rise(i *queue.Info) {
	if !i.Stop.On() {
		return
	}
	at := leaky.Instant(i.Stop.Until.UnixMicro())
	p.bucket = p.Rise(p.bucket, at)
	for n := range p.limits {
		if l := &p.limits[n]; l.quota.Max == 0 {
			l.Bucket = l.Rise(l.Bucket, at)
		}
	}
}

// eta is when a job departs by the paces with that much cost ahead of it.
func (p *paces) eta(now leaky.Instant, ahead int64) leaky.Instant {
	return max(p.ETA(p.bucket, now, ahead), p.limitsETA(now, ahead))
}

// limitsETA is eta by the limits alone.
func (p *paces) limitsETA(now leaky.Instant, ahead int64) leaky.Instant {
	at := now
	for _, l := range p.limits {
		if l.quota.Max > 0 {
			at = max(at, l.quota.ETA(p.Pacer, l.Window, now, ahead))
		} else {
			at = max(at, l.ETA(l.Bucket, now, ahead))
		}
	}
	return at
}

// eta is when a job departs with that much cost ahead of it in its queue, some of it deferred, and more other jobs in
// the group than there are now.
func (e *etaModel) eta(now leaky.Instant, ahead, deferred, more int64) leaky.Instant {
	at := now
	if e.own != nil {
		at = e.own.eta(now, ahead)
	}
	return max(at, e.groupETA(now, ahead, deferred, more))
}

// groupETA is eta by the group alone, whose members take turns.
func (e *etaModel) groupETA(now leaky.Instant, ahead, deferred, more int64) leaky.Instant {
	if e.group == nil {
		return now
	}
	return e.group.eta(now, min(ahead*(e.otherMembers+1)+e.otherMembers, (e.waiting+more)*e.maxCost+deferred))
}
