package machine

// pool is lanes that always get the same: a lane, or several whose taps are alike.
type pool struct {
	tap
	ends    []laneEnd // the lanes that have something left, the shallowest first
	lanes   float64   // how many these are
	served  float64   // what each of them has let out
	left    float64   // what all of them have left
	jobCost float64
	opens   float64
	hours   *hours  // of the overflow
	got     float64 // rate or amount, of each lane
	flows   float64 // got, as a rate
	dry     float64 // when the last lane ran dry
}

// laneEnd is where a lane ends, or several ones of the same depth.
type laneEnd struct {
	depth, lanes float64
	index        int // in Lineup.Lanes, or -1
}

// add adds a lane, or to the last lane of a pool that is one.
func (p *pool) add(e laneEnd) {
	p.lanes += e.lanes
	p.left += (e.depth - p.served) * e.lanes
	p.ends = append(p.ends, e)
}

// pour adds to the only lane of a pool.
func (p *pool) pour(depth float64) {
	if len(p.ends) == 0 {
		p.add(laneEnd{p.served, 1, -1})
	}
	p.ends[0].depth += depth
	p.left += depth
}

// depth returns what the shallowest lane has left.
func (p *pool) depth() float64 {
	if len(p.ends) == 0 {
		return 0
	}
	return p.ends[0].depth - p.served
}

func (p *pool) within(t, dt float64) float64 {
	switch {
	case len(p.ends) == 0 || p.opens > t:
		return 0
	case dt == 0:
		return p.flow()
	}
	return min(p.depth(), p.tap.within(dt))
}

// pass lets out got. It calls dry for each lane that runs dry, with the time.
func (p *pool) pass(t, dt float64, dry func(index int, at float64)) {
	p.tap.pass(dt, p.got)
	if p.opens > t {
		p.credit = min(p.credit, p.jobCost)
	}
	p.left = max(0, p.left-p.got*p.lanes)
	for p.served += p.got; len(p.ends) > 0 && p.depth() <= tiny; p.ends = p.ends[1:] {
		p.lanes -= p.ends[0].lanes
		if p.dry = t + dt; p.ends[0].index >= 0 {
			dry(p.ends[0].index, p.dry)
		}
	}
	if len(p.ends) == 0 {
		p.left = 0
	}
}

// changes returns after how long a lane runs dry or the tap changes.
func (p *pool) changes(t float64) float64 {
	switch {
	case len(p.ends) == 0:
		return inf
	case p.opens > t:
		return p.opens - t
	}
	next := p.tap.changes(p.flows)
	if p.flows > 0 {
		next = min(next, p.depth()/p.flows)
	}
	return next
}

// share is what a pool asks of something shared, and gets.
type share struct {
	asks, weight, gets float64
	rests              bool
}

// divide divides an amount max-min fairly.
func divide(amount float64, all []share) {
	open, level, resting := 0.0, inf, false
	for i := range all {
		all[i].gets = -1
		open += all[i].weight
	}
	left := amount
	for again := true; again && open > tiny; {
		again = false
		if left < inf {
			level = max(0, left) / open
		}
		for i := range all {
			s := &all[i]
			if s.gets < 0 && s.asks <= level {
				s.gets, again = s.asks, true
				resting = resting || s.rests && s.weight > 0 && s.asks > 0
				open -= s.weight
				if left < inf {
					left -= s.asks * s.weight
				}
			}
		}
	}
	for i := range all {
		if all[i].gets < 0 {
			all[i].gets = min(all[i].asks, level)
		}
	}
	if resting && open > tiny && amount > 0 {
		divideByTurns(amount, all)
	}
}

// divideByTurns divides an amount among lanes that take turns while some of them rest between two jobs. A lane without
// a burst waits for its turn only once it has rested. So it gets 1/(1/r + wait), where r is its rate and wait what a
// lane that never rests waits from job to job.
func divideByTurns(amount float64, all []share) {
	gets := func(s *share, wait float64) float64 {
		if s.rests && s.asks > 0 {
			return 1 / (1/s.asks + wait)
		}
		return min(s.asks, 1/wait)
	}
	low, high := 0.0, 0.0
	for i := range all {
		high += all[i].weight / amount
	}
	for range 40 {
		wait, sum := (low+high)/2, 0.0
		for i := range all {
			if all[i].weight > 0 {
				sum += gets(&all[i], wait) * all[i].weight
			}
		}
		if sum > amount {
			low = wait
		} else {
			high = wait
		}
	}
	for i := range all {
		all[i].gets = gets(&all[i], high)
	}
}
