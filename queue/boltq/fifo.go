package boltq

import "sort"

// fifo holds the waiting jobs in order of turn, in a ring: the ends cost O(1),
// a rank O(log n), and what comes back is put in from the nearer end. Jobs that
// come back were granted before those that wait, so that end is the front.
type fifo struct {
	ring []*job // its length is a power of two
	head int
	n    int
}

func (f *fifo) len() int { return f.n }

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

// remove takes j, which is in it, out of the middle.
func (f *fifo) remove(j *job) {
	i := f.rank(j)
	if i < f.n-i { // the front is nearer
		for ; i > 0; i-- {
			f.set(i, f.at(i-1))
		}
		f.pop()
		return
	}
	for ; i < f.n-1; i++ {
		f.set(i, f.at(i+1))
	}
	f.n--
	f.set(f.n, nil)
}

// insert puts j at its turn.
func (f *fifo) insert(j *job) {
	if f.n == len(f.ring) {
		f.resize(max(8, 2*len(f.ring)))
	}
	i := f.n
	if i > 0 && f.at(i-1).turn > j.turn {
		i = f.search(j.turn)
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
}

// rank returns how many wait before j.
func (f *fifo) rank(j *job) int { return f.search(j.turn) }

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
