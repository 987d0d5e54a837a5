package machine

import (
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A client that does not know the engine's clock well starts all of its jobs late by as much, which nobody knows. That
// changes nothing between its own starts. Between one of them and a later one of another client, it would take away
// from their distance. So of a bucket whose last departure such a client had, others are granted the next one that much
// later, and the client itself when it knows the clock better: the window law holds however far away a drainer is.
//
// A store that loses its last writes, or an embedded one that is killed, forgets reigns: then the law may be broken
// once by as much as a client was uncertain.

const (
	// reignsMax is how many reigns are remembered; the oldest are then taken for one.
	reignsMax = 4
	// reignFor is how long a reign matters, in times its uncertainty. Half of the default slack of a queue whose interval
	// is 200 times the uncertainty is as long as that is, so that its starts are within the slack anyway; a job may cost
	// more than one interval.
	reignFor = 500
	// reignJitter is by how much a client's uncertainty may shrink without its starts coming too near together: half of
	// the slack is left for that.
	reignJitter = time.Millisecond / 2
)

// reign is when an uncertain client had paced departures, from the first to the latest.
type reign struct {
	client        string // empty if it were several
	first, latest leaky.Instant
	by            time.Duration // its uncertainty
}

// over reports whether a reign matters no more.
func (r *reign) over(now leaky.Instant) bool { return r.latest.Add(reignFor*r.by) < now }

// noteReign remembers what an uncertain client was granted.
func (m *Machine) noteReign(client string, g *grant, uncertainty time.Duration, now leaky.Instant) {
	uncertainty = min(uncertainty, queue.Horizon)
	if uncertainty == 0 || g.first == 0 {
		return
	}
	m.reigns = slices.DeleteFunc(m.reigns, func(r reign) bool { return r.over(now) })
	if n := len(m.reigns); n > 0 && m.reigns[n-1].client == client && m.reigns[n-1].by-uncertainty <= reignJitter {
		r := &m.reigns[n-1]
		r.latest, r.by = max(r.latest, g.latest), max(r.by, uncertainty)
		return
	}
	m.reigns = append(m.reigns, reign{client, g.first, g.latest, uncertainty})
	if len(m.reigns) > reignsMax {
		a, b := m.reigns[0], m.reigns[1]
		m.reigns[1] = reign{"", min(a.first, b.first), max(a.latest, b.latest), max(a.by, b.by)}
		m.reigns = m.reigns[1:]
	}
}

// grantsFrom sets the instant before which a request is granted no paced departure, and whether it is barred: each
// change from an uncertain client to another costs as much time as the one is uncertain of. So until half a horizon
// before that instant the uncertain one may go on, and it does not come between while another watches.
func (m *Machine) grantsFrom(g *grant, r *queue.ReserveRequest, now leaky.Instant) {
	g.lead = min(r.Lead, queue.Horizon)
	g.from = now.Add(g.lead)
	if w := &m.watch; r.Queue == "" && r.Uncertainty > 0 && w.client != "" && w.client != r.Client.ID {
		g.barred = now < w.until.Add(w.patience())
	}
	for i, r2 := range m.reigns {
		if r2.over(now) {
			continue
		}
		if r2.client == r.Client.ID { // its own starts are late by less than they were
			if r2.by -= min(r.Uncertainty, queue.Horizon); r2.by > reignJitter {
				g.reigns = append(g.reigns, r2)
			}
			continue
		}
		g.reigns = append(g.reigns, r2)
		if until := r2.latest.Add(r2.by); i == len(m.reigns)-1 && until > g.from {
			g.from, g.barred = until, g.barred || until > now.Add(queue.Horizon/2)
		}
	}
}

// notePaced notes that a paced departure was granted.
func (g *grant) notePaced(d leaky.Instant) {
	if g.first == 0 {
		g.first = d
	}
	g.first, g.latest = min(g.first, d), max(g.latest, d)
}

// reigns are those by which a client's departures are put off.
type reigns []reign

// laterBy is how much later a bucket counts as it is, because its last departure was that of another, uncertain client.
func (l reigns) laterBy(p leaky.Pacer, b leaky.Bucket) (by time.Duration) {
	for i := range l {
		if r := &l[i]; b.Last >= r.first && b.Last <= r.latest && !p.Rate.Unlimited() {
			by = max(by, r.by)
		}
	}
	return by
}

// apart returns d, or when all buckets let a departure out that count as later.
func (l reigns) apart(p *paces, d, now leaky.Instant) leaky.Instant {
	if len(l) == 0 {
		return d
	}
	d = l.apartIn(p.pacer, p.bucket, d, now)
	for i := range p.limits {
		if m := &p.limits[i]; m.Paced() {
			d = l.apartIn(m.pacer, m.bucket, d, now)
		}
	}
	return d
}

func (l reigns) apartIn(p leaky.Pacer, b leaky.Bucket, d, now leaky.Instant) leaky.Instant {
	if by := l.laterBy(p, b); by > 0 {
		return max(d, p.Free(b, now).Add(by))
	}
	return d
}

// apartInLane does so for a lane with a rate of its own.
func (l reigns) apartInLane(ln *lane, d, now leaky.Instant) leaky.Instant {
	if len(l) == 0 {
		return d
	}
	if b, p, limited := ln.pacing(d, now); limited {
		return l.apartIn(p, b, d, now)
	}
	return d
}

// shift makes buckets later for good that count as later, before the first departure of this client is taken.
func (l reigns) shift(p *paces) {
	if len(l) == 0 {
		return
	}
	l.shiftOne(p.pacer, &p.bucket)
	for i := range p.limits {
		if m := &p.limits[i]; m.Paced() {
			l.shiftOne(m.pacer, &m.bucket)
		}
	}
}

func (l reigns) shiftOne(p leaky.Pacer, b *leaky.Bucket) {
	by := l.laterBy(p, *b)
	b.TAT, b.Last = b.TAT.Add(by), b.Last.Add(by)
}
