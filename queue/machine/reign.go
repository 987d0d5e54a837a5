package machine

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A client that does not know the engine's clock well starts all its jobs late by the same unknown delay. The distances
// between its own starts stay the same, but the next job of another client could start too soon after one of them. So a
// bucket whose last departure was granted to an uncertain client counts as that much later for other clients, and for
// the client itself once it knows the clock better. The window law holds however far away a drainer is.
//
// A store that loses its last writes, or an embedded store that is killed, forgets reigns: then the law may be broken
// once by as much as a client was uncertain.

const (
	// reignsMax is the maximum number of reigns remembered. Beyond it, the two oldest are merged.
	reignsMax = 4
	// reignJitter is how much a client's uncertainty may shrink before its own starts count as too close together. Half
	// of the slack is left for that.
	reignJitter = time.Millisecond / 2
)

// reign is a period in which one uncertain client was granted paced departures, from the first to the latest.
type reign struct {
	clock         string // of its clients; empty if they had several clocks
	first, latest leaky.Instant
	by            time.Duration // its uncertainty
}

// noteReign remembers what an uncertain client was granted.
func (m *Machine) noteReign(g *grant, r *queue.ReserveRequest) {
	uncertainty, clock := min(r.Uncertainty, queue.Horizon), r.ClockID()
	if uncertainty == 0 || g.first == 0 {
		return
	}
	if n := len(m.reigns); n > 0 && m.reigns[n-1].clock == clock && m.reigns[n-1].by-uncertainty <= reignJitter {
		r := &m.reigns[n-1]
		r.latest, r.by = max(r.latest, g.latest), max(r.by, uncertainty)
		return
	}
	m.reigns = append(m.reigns, reign{clock, g.first, g.latest, uncertainty})
	if len(m.reigns) > reignsMax {
		a, b := m.reigns[0], m.reigns[1]
		m.reigns[1] = reign{"", min(a.first, b.first), max(a.latest, b.latest), max(a.by, b.by)}
		m.reigns = m.reigns[1:]
	}
}

// grantsFrom sets the instant before which a request is granted no paced departure, and whether it is barred. Each
// change from an uncertain client to another loses as much time as its uncertainty. To avoid changes, other clients are
// barred until half a horizon before that instant, and an uncertain client is barred while another client watches.
func (m *Machine) grantsFrom(g *grant, r *queue.ReserveRequest, now leaky.Instant) {
	g.lead = min(r.Lead, queue.Horizon)
	g.from = now.Add(g.lead)
	if w := &m.watch; r.Queue == "" && r.Uncertainty > 0 && w.client != "" && w.client != r.Client.ID {
		g.barred = now < w.until.Add(w.patience())
	}
	for i, r2 := range m.reigns {
		if r2.clock == r.ClockID() { // its own starts are late by less than they were
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

func (g *grant) notePaced(d leaky.Instant) {
	if g.first == 0 {
		g.first = d
	}
	g.first, g.latest = min(g.first, d), max(g.latest, d)
}

// reigns are the reigns that delay a client's departures.
type reigns []reign

// laterBy returns how much later a bucket counts because its last departure was granted to another, uncertain client.
func (rs reigns) laterBy(p leaky.Pacer, b leaky.Bucket) (by time.Duration) {
	if p.Rate.Unlimited() {
		return 0
	}
	return rs.lateness(b.Last)
}

// lateness returns by how much a start may be late after a departure.
func (rs reigns) lateness(d leaky.Instant) (by time.Duration) {
	for i := range rs {
		if r := &rs[i]; d >= r.first && d <= r.latest {
			by = max(by, r.by)
		}
	}
	return by
}

// apart returns the next departure, not before d, that all buckets allow when they count as later.
func (rs reigns) apart(p *paces, d, now leaky.Instant) leaky.Instant {
	if len(rs) == 0 {
		return d
	}
	d = rs.apartIn(p.pacer, p.bucket, d, now)
	for l := range p.paced {
		d = rs.apartIn(l.pacer, l.bucket, d, now)
	}
	return d
}

func (rs reigns) apartIn(p leaky.Pacer, b leaky.Bucket, d, now leaky.Instant) leaky.Instant {
	if by := rs.laterBy(p, b); by > 0 {
		return max(d, p.Free(b, now).Add(by))
	}
	return d
}

// apartInLane is apart for a lane with a rate of its own.
func (rs reigns) apartInLane(ln *lane, d, now leaky.Instant) leaky.Instant {
	if len(rs) == 0 {
		return d
	}
	if p, limited := ln.pacing(d, now); limited {
		return rs.apartIn(p.pacer, p.bucket, d, now)
	}
	return d
}

// shift makes the buckets that count as later so for good, before this client takes its first departure.
func (rs reigns) shift(p *paces) {
	if len(rs) == 0 {
		return
	}
	rs.shiftOne(p.pacer, &p.bucket)
	for l := range p.paced {
		rs.shiftOne(l.pacer, &l.bucket)
	}
}

func (rs reigns) shiftOne(p leaky.Pacer, b *leaky.Bucket) {
	by := rs.laterBy(p, *b)
	b.TAT, b.Last = b.TAT.Add(by), b.Last.Add(by)
}

// shiftBudget is shift for a budget, before its credit is looked at.
func (rs reigns) shiftBudget(l *limit) {
	if by := rs.lateness(l.balance.Last); by > 0 {
		l.balance.TAT, l.balance.Last = l.balance.TAT.Add(by), 0
	}
}
