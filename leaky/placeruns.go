package leaky

// placeRun is a run of neighbours in the list of places. Runs tell how much is held up to a place by looking at
// some runs and the places of one or two, instead of all before it.
type placeRun struct {
	first, n int32 // its first place, 0 if it is empty; how many they are
	cost     int64 // of all of them
}

// runMost is how many places a run has at most: MaxEntries makes some hundred runs of some hundred places.
const runMost = 64

// join puts the last place in the list into the last run. While there are few places there are no runs.
func (t *placeTable) join(i int32) {
	last := len(t.runs) - 1
	switch {
	case last < 0 && t.n <= 2*runMost:
		return
	// There are none yet, or most are nearly empty and enough places came since they were made.
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

// part takes a place out of its run, before it leaves the list.
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

// divide makes full runs of all places.
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

// over returns the first place that has not ended, and the cost from there on.
func (t *placeTable) over(now Instant) (i int32, sum int64) {
	sum = t.sum
	if i = t.places[0].next; i == 0 || t.places[i].until > now { // the usual case, after every Take
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

// following is the next run that has a place.
func (t *placeTable) following(at int) int {
	for at++; at < len(t.runs); at++ {
		if t.looks++; t.runs[at].n > 0 {
			break
		}
	}
	return at
}

// passes returns when that much of the cost from place i on is free. No place ends later than one taken now.
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
