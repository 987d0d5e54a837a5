package machine

import (
	"cmp"
	"math"
	"slices"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// fewLanes is how many lanes are followed one by one. Of more lanes, those whose taps are about the same are one pool.
const fewLanes = 64

// kind is what lanes of a pool have in common, rounded.
type kind struct {
	rate, credit, opens, cost float64
	burst                     float64
}

// addLanes adds the lanes with waiting jobs. apart are lanes to follow on their own.
func (c *forecaster) addLanes(apart map[queue.LaneDigest]bool) {
	waiting, lanes := c.lineup.Waiting, c.lineup.Info.Lanes
	pools := map[kind]int{}
	for n := range c.lineup.Lanes {
		ln := &c.lineup.Lanes[n]
		if ln.Waiting == 0 {
			continue
		}
		waiting, lanes = waiting-ln.Waiting, lanes-1
		p := c.newPool(ln.Digest, ln.Bucket, float64(ln.Cost)/float64(ln.Waiting))
		if !ln.Stop.IsZero() {
			p.opens = ln.Stop.Sub(c.lineup.Now).Seconds()
		}
		end := laneEnd{float64(ln.Cost), 1, n}
		if len(c.lineup.Lanes) > fewLanes && !apart[ln.Digest] {
			k := p.kind()
			if at, known := pools[k]; known {
				c.pools[at].add(end)
				continue
			}
			pools[k] = len(c.pools)
		} else {
			c.poolOf[ln.Digest] = len(c.pools)
		}
		p.add(end)
		c.pools = append(c.pools, p)
	}
	if waiting > 0 && lanes > 0 && int64(len(c.lineup.Lanes)) >= queue.MaxLineupLanes {
		p := c.newPool(queue.LaneDigest{1}, leaky.Bucket{}, c.cost)
		p.add(laneEnd{float64(waiting) * c.cost / float64(lanes), float64(lanes), -1})
		c.pools = append(c.pools, p)
	}
	for i := range c.pools {
		slices.SortFunc(c.pools[i].ends, func(a, b laneEnd) int { return cmp.Compare(a.depth, b.depth) })
	}
}

func (p *pool) kind() kind {
	round := func(v float64) float64 { // to a sixteenth of an octave
		if v <= 0 || v >= inf {
			return v
		}
		return math.Exp2(math.Round(math.Log2(v)*16) / 16)
	}
	k := kind{rate: round(p.rate), burst: p.burst, opens: math.Ceil(p.opens), cost: round(p.jobCost), credit: p.credit}
	if p.credit < inf {
		k.credit = math.Round(p.credit / p.jobCost)
	}
	return k
}

// newPool returns an empty lane.
func (c *forecaster) newPool(digest queue.LaneDigest, b leaky.Bucket, cost float64) pool {
	rule, own := c.rules[digest]
	if !own && digest != (queue.LaneDigest{}) {
		rule = c.spec.Lanes.LaneRule
	}
	p := pool{tap: c.tap(rule.Pacer(), b, cost, verdict{by: cause.LaneRate}), jobCost: cost}
	most, by := rule.MaxInFlight, cause.LaneMaxInFlight
	if c.spec.Ordered {
		most, by = 1, cause.Ordered
	}
	if flight, known := c.flight(); most > 0 && known {
		if rate := cost * float64(most) / flight; rate < p.rate {
			p.tap = tap{rate: rate, burst: cost * float64(most), by: verdict{by: by}}
		}
	}
	p.rests = p.rate < inf && p.burst < 2*cost
	return p
}

// pool returns the pool of a lane, new for jobs of that cost if it has no waiting jobs.
func (c *forecaster) pool(digest queue.LaneDigest, cost float64) int {
	n, known := c.poolOf[digest]
	if !known {
		n = len(c.pools)
		c.poolOf[digest] = n
		c.pools = append(c.pools, c.newPool(digest, leaky.Bucket{}, cost))
	}
	return n
}
