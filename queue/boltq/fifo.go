package boltq

import "sort"

// fifo holds waiting jobs in order of turn, in a ring: the ends cost O(1), a rank
// O(log n). What comes back is put in near an end, or not at all. Most jobs that come
// back were granted before those that wait, so that end is the front.
type fifo struct {
	ring []*job // its length is a power of two
	head int
	n    int
}

func (f *fifo) at(i int) *job { return f.ring[(f.head+i)&(len(f.ring)-1)] }

func (f *fifo) set(i int, j *job) { f.ring[(f.head+i)&(len(f.ring)-1)] = j }

func (f *fifo) front() *job { return f.at(0) }

func (f *fifo) pop() *job {
	j := f.at(0)
	f.set(0, nil)
	f.head = (f.head + 1) & (len(f.ring) - 1)
	f.n--
	if len(f.ring) > 64 && f.n < len(f.ring)/8 {
		f.resize(len(f.ring) / 4)
	}
	return j
}

// remove takes j out, and reports whether it was there.
func (f *fifo) remove(j *job) bool {
	if f.n > 0 && f.front() == j {
		f.pop()
		return true
	}
	i := f.search(j.turn)
	if i == f.n || f.at(i) != j {
		return false
	}
	if i < f.n-i { // the front is nearer
		for ; i > 0; i-- {
			f.set(i, f.at(i-1))
		}
		f.pop()
		return true
	}
	for ; i < f.n-1; i++ {
		f.set(i, f.at(i+1))
	}
	f.n--
	f.set(f.n, nil)
	return true
}

// nearEnd is how many jobs are moved at most for one that comes in before them.
const nearEnd = 64

// insert puts j at its turn, unless that is too far from the ends, which it reports.
func (f *fifo) insert(j *job) bool {
	i := f.n
	if i > 0 && f.at(i-1).turn > j.turn {
		if i = f.search(j.turn); min(i, f.n-i) > nearEnd {
			return false
		}
	}
	if f.n == len(f.ring) {
		f.resize(max(8, 2*len(f.ring)))
	}
	if i >= f.n-i { // the back is nearer
		for k := f.n; k > i; k-- {
			f.set(k, f.at(k-1))
		}
	} else {
		f.head = (f.head - 1) & (len(f.ring) - 1)
		for k := range i {
			f.set(k, f.at(k+1))
		}
	}
	f.n++
	f.set(i, j)
	return true
}

// search returns the index of the first job whose turn is not before turn.
func (f *fifo) search(turn int64) int {
	return sort.Search(f.n, func(i int) bool { return f.at(i).turn >= turn })
}

func (f *fifo) resize(size int) {
	ring := make([]*job, size)
	for i := range f.n {
		ring[i] = f.at(i)
	}
	f.ring, f.head = ring, 0
}
