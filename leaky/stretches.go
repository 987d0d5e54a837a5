package leaky

// stretch is some neighbours in the list of places. They tell how much is held up to a place without a look at each of
// those before it: at some stretches and the places of one or two.
type stretch struct {
	first, n int32 // its first place, 0 if it has none; how many they are
	cost     int64 // of them all
}

// stretchMost is as many as one has: of MaxEntries, some hundred stretches of some hundred places.
const stretchMost = 64

// join puts the place that has come last in the list into the last stretch. A few places have none.
func (t *held) join(i int32) {
	last := len(t.stretches) - 1
	switch {
	case last < 0 && t.n <= 2*stretchMost:
		return
	case last < 0, t.stretches[last].n >= stretchMost && last > 2*t.n/stretchMost+8: // most are nearly empty, and as many places came as made them so many
		t.divide()
		return
	case t.stretches[last].n >= stretchMost:
		t.stretches = append(t.stretches, stretch{})
		last++
	}
	p, s := &t.places[i], &t.stretches[last]
	if p.stretch = int32(last); s.n == 0 {
		s.first = i
	}
	s.n++
	s.cost += p.cost
}

// part takes a place out of its stretch, before it leaves the list.
func (t *held) part(i int32) {
	switch {
	case len(t.stretches) == 0:
		return
	case t.n < stretchMost:
		t.stretches = t.stretches[:0]
		return
	}
	p := &t.places[i]
	s := &t.stretches[p.stretch]
	if s.n--; s.n == 0 {
		s.first = 0
	} else if s.first == i {
		s.first = p.next
	}
	s.cost -= p.cost
}

// divide makes full stretches of all places.
func (t *held) divide() {
	t.stretches = t.stretches[:0]
	for i := t.places[0].next; i != 0; i = t.places[i].next {
		last := len(t.stretches) - 1
		if last < 0 || t.stretches[last].n == stretchMost {
			t.stretches = append(t.stretches, stretch{first: i})
			last++
		}
		t.places[i].stretch = int32(last)
		t.stretches[last].n++
		t.stretches[last].cost += t.places[i].cost
	}
}

// over returns the first place that has not ended, and the cost of it and those behind it.
func (t *held) over(now Instant) (i int32, sum int64) {
	sum = t.sum
	if i = t.places[0].next; i == 0 || t.places[i].until > now { // as it is behind every Take
		return i, sum
	}
	if len(t.stretches) > 0 {
		at := int(t.places[i].stretch)
		for next := t.following(at); next < len(t.stretches); next = t.following(at) {
			first := t.stretches[next].first
			if t.places[t.places[first].prev].until > now {
				break
			}
			sum -= t.stretches[at].cost
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

// following is the next stretch in which there is a place.
func (t *held) following(at int) int {
	for at++; at < len(t.stretches); at++ {
		if t.looks++; t.stretches[at].n > 0 {
			break
		}
	}
	return at
}

// passes returns when that much cost is free, which is held from the i-th place on. None ends later than if it were taken now.
func (t *held) passes(now Instant, i int32, cost int64) Instant {
	for at := t.places[i].stretch; len(t.stretches) == 0 || t.places[i].stretch == at; i = t.places[i].next {
		t.looks++
		if cost -= t.places[i].cost; cost <= 0 {
			return t.ends(now, i)
		}
	}
	at := int(t.places[i].stretch)
	for cost > t.stretches[at].cost {
		cost -= t.stretches[at].cost
		at = t.following(at)
	}
	for i = t.stretches[at].first; ; i = t.places[i].next {
		t.looks++
		if cost -= t.places[i].cost; cost <= 0 {
			return t.ends(now, i)
		}
	}
}

func (t *held) ends(now Instant, i int32) Instant { return min(t.places[i].until, now+t.ttl) }
