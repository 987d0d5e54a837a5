package queue

import "github.com/penstock/penstock/leaky"

// exit is the way out of a queue as an Info shows it, by the rules by which engines
// tell an ETA.
type exit struct {
	own   *paces // nil if all that it has holds for the group: the parent's own jobs have nothing besides
	group *paces // nil if there is none
	// In a group: in how many other members jobs wait, how many jobs in all of them, and the cost
	// of the dearest.
	others, around, dearest int64
}

// paces is a bucket, and the limits beside it.
type paces struct {
	leaky.Pacer
	bucket leaky.Bucket
	limits []limited
}

// limited is a further pace if quota.Max is 0.
type limited struct {
	leaky.Pacer
	quota leaky.Quota
	LimitState
}

// exit returns the way out for jobs of that cost. rate is another one than the queue's; nil is none.
// Its error is a *FieldError.
func (i *Info) exit(cost int64, rate *leaky.Rate) (exit, error) {
	own, err := i.paces(rate)
	if err != nil {
		return exit{}, err
	}
	head := i
	e := exit{own: own}
	switch {
	case i.Group.Children > 0:
		e = exit{group: own}
	case i.Parent != nil:
		head = i.Parent
		if e.group, err = head.paces(nil); err != nil {
			return exit{}, err
		}
	default:
		own.rise(i)
		return e, nil
	}
	if head != i { // a parent's stop is of its own jobs alone
		own.rise(i)
	}
	e.others, e.around, e.dearest = head.Group.Members, head.Group.Waiting, max(1, cost, head.Group.MaxCost)
	if i.Waiting > 0 {
		e.others--
	}
	return e, nil
}

// paces returns those of the queue, at another rate if there is one.
func (i *Info) paces(rate *leaky.Rate) (*paces, error) {
	p := &paces{Pacer: i.pacer(), bucket: i.Bucket}
	if rate != nil {
		other := p.Pacer
		other.Rate = *rate
		if err := other.Validate(); err != nil {
			return nil, fieldErr("rate", "", "%v", err)
		}
		p.Pacer, p.bucket = other, p.Change(p.bucket, other, i.instant())
	}
	for n := range i.Spec.Limits {
		of := &i.Spec.Limits[n]
		l := limited{Pacer: of.Pacer()}
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

// rise is for the paces of a queue that stops: they earn nothing by it.
func (p *paces) rise(i *Info) {
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

// eta is when a job departs by the paces that has so much ahead.
func (p *paces) eta(now leaky.Instant, ahead int64) leaky.Instant {
	return max(p.ETA(p.bucket, now, ahead), p.beside(now, ahead))
}

// beside is eta by the limits alone.
func (p *paces) beside(now leaky.Instant, ahead int64) leaky.Instant {
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

// eta is when a job departs that has so much ahead in its queue, of which so much is deferred, and so
// many jobs more than now before it, or less.
func (e *exit) eta(now leaky.Instant, ahead, deferred, more int64) leaky.Instant {
	at := now
	if e.own != nil {
		at = e.own.eta(now, ahead)
	}
	return max(at, e.together(now, ahead, deferred, more))
}

// together is eta by the group alone, whose members take turns.
func (e *exit) together(now leaky.Instant, ahead, deferred, more int64) leaky.Instant {
	if e.group == nil {
		return now
	}
	return e.group.eta(now, min(ahead*(e.others+1)+e.others, (e.around+more)*e.dearest+deferred))
}
