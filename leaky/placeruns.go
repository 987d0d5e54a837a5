package leaky

// placeRun is a run of neighbors in the list of places. To compute how much is held up to a place, it suffices to
// visit some runs and the places of one or two, instead of all places before it.
type placeRun struct {
	first, n int32 // first place, or 0; number of places
	cost     int64 // total
}

// runMost is the maximum number of places in a run: MaxEntries places fill about 160 runs.
const runMost = 64

// join adds the last place of the list to the last run. Short lists have no runs.
func (t *placeTable) join(i int32) {
	last := len(t.runs) - 1
	switch {
	case last < 0 && t.n <= 2*runMost:
		return
	// There are no runs yet, or most are nearly empty and enough places came since they were made.
	case last < 0, t.runs[last].n >= runMost && last > 2*t.n/runMost+8:
		t.divide()
		return
	case t.runs[last].n >= runMost:
		t.runs = append(t.runs, placeRun{})
		last++
	}
	p, s := &t.places[i], &t.runs[last]
	if p.run = int32(last); s.n == 0 {
		s.first = i
	}
	s.n++
	s.cost += p.cost
}

// part removes a place from its run, before the place leaves the list.
func (t *placeTable) part(i int32) {
	switch {
	case len(t.runs) == 0:
		return
	case t.n < runMost:
		t.runs = t.runs[:0]
		return
	}
	p := &t.places[i]
	s := &t.runs[p.run]
	if s.n--; s.n == 0 {
		s.first = 0
	} else if s.first == i {
		s.first = p.next
	}
	s.cost -= p.cost
}

// divide divides all places into full runs.
func (t *placeTable) divide() {
	t.runs = t.runs[:0]
	for i := t.places[0].next; i != 0; i = t.places[i].next {
		last := len(t.runs) - 1
		if last < 0 || t.runs[last].n == runMost {
			t.runs = append(t.runs, placeRun{first: i})
			last++
		}
		t.places[i].run = int32(last)
		t.runs[last].n++
		t.runs[last].cost += t.places[i].cost
	}
}

// over returns the first place that has not ended, and the total cost from there on.
func (t *placeTable) over(now Instant) (i int32, sum int64) {
	sum = t.sum
	if i = t.places[0].next; i == 0 || t.places[i].until > now { // usual after every Take
		return i, sum
	}
	if len(t.runs) > 0 {
		at := int(t.places[i].run)
		for next := t.following(at); next < len(t.runs); next = t.following(at) {
			first := t.runs[next].first
			if t.places[t.places[first].prev].until > now {
				break
			}
			sum -= t.runs[at].cost
			i, at = first, next
		}
	}
	for i != 0 && t.places[i].until <= now {
		t.looks++
		sum -= t.places[i].cost
		i = t.places[i].next
	}
	return i, sum
}

// following returns the next run with a place.
func (t *placeTable) following(at int) int {
	for at++; at < len(t.runs); at++ {
		if t.looks++; t.runs[at].n > 0 {
			break
		}
	}
	return at
}

// passes returns when this much cost, counted from place i on, will be free. No place ends later than one taken now.
func (t *placeTable) passes(now Instant, i int32, cost int64) Instant {
	for at := t.places[i].run; len(t.runs) == 0 || t.places[i].run == at; i = t.places[i].next {
		t.looks++
		if cost -= t.places[i].cost; cost <= 0 {
			return t.ends(now, i)
		}
	}
	at := int(t.places[i].run)
	for cost > t.runs[at].cost {
		cost -= t.runs[at].cost
		at = t.following(at)
	}
	for i = t.runs[at].first; ; i = t.places[i].next {
		t.looks++
		if cost -= t.places[i].cost; cost <= 0 {
			return t.ends(now, i)
		}
	}
}

func (t *placeTable) ends(now Instant, i int32) Instant { return min(t.places[i].until, now+t.ttl) }
