package boltq

import (
	"github.com/penstock/penstock/leaky"
)

// paces is what lets jobs out of a queue.
type paces struct {
	pacer  leaky.Pacer
	bucket leaky.Bucket
}

// opens is the next departure that the paces allow, not before now.
func (p *paces) opens(now leaky.Instant) leaky.Instant { return p.pacer.Next(p.bucket, now) }

// free is since when they allow one, if that is before now.
func (p *paces) free(now leaky.Instant) leaky.Instant { return p.pacer.Free(p.bucket, now) }

// eta is when a job departs that has so much before it.
func (p *paces) eta(now leaky.Instant, ahead int64) leaky.Instant {
	return p.pacer.ETA(p.bucket, now, ahead)
}

// take takes a departure at d, which opens has allowed.
func (p *paces) take(d, now leaky.Instant, cost int64) { p.pacer.TakeAt(&p.bucket, now, d, cost) }

// giveBack undoes the latest departure, which was never used.
func (p *paces) giveBack() { p.pacer.GiveBack(&p.bucket) }

// mend mends what no grant has left so, when the next departure is beyond the horizon.
func (p *paces) mend(now leaky.Instant) { p.pacer.Take(&p.bucket, now, 1) }
