package machine

import (
	"sort"

	"github.com/penstock/penstock/queue"
)

// waitList holds the waiting jobs of a lane in order of turn. Each priority has its own FIFO, so that an urgent job
// among many others costs no more than any job. A job that comes back into the middle of a FIFO is kept beside it
// instead, so that nothing has to be moved. Most lanes use only the lowest priority.
type waitList struct {
	low   fifo
	extra *waitListExtra // nil while it would be empty
}

type waitListExtra struct {
	high   [queue.MaxPriority]fifo // by priority, above the lowest
	middle sorted[*job]            // jobs of any priority that came back into the middle
}

func byTurn(a, b *job) bool { return a.turn < b.turn }

func (l *waitList) needExtra() *waitListExtra {
	if l.extra == nil {
		l.extra = &waitListExtra{middle: sorted[*job]{less: byTurn}}
	}
	return l.extra
}

func (l *waitList) fifoOf(priority int) *fifo {
	if priority == 0 {
		return &l.low
	}
	return &l.needExtra().high[priority-1]
}

func (l *waitList) len() int {
	if l.extra == nil {
		return l.low.n
	}
	return l.low.n + l.extra.above(0) + l.extra.middle.len()
}

// above returns how many jobs in the FIFOs have a higher priority.
func (x *waitListExtra) above(priority int) (n int) {
	for i := priority; i < len(x.high); i++ {
		n += x.high[i].n
	}
	return n
}

func (l *waitList) front() *job {
	x := l.extra
	if x == nil {
		return l.low.front()
	}
	var first *job
	for p := queue.MaxPriority; p >= 0 && first == nil; p-- {
		if f := l.fifoOf(p); f.n > 0 {
			first = f.front()
		}
	}
	if x.middle.len() > 0 && (first == nil || x.middle.top().turn < first.turn) {
		return x.middle.top()
	}
	return first
}

// back returns the last job, or nil.
func (l *waitList) back() *job {
	x := l.extra
	if x == nil {
		return l.low.back()
	}
	var last *job
	for p := 0; p <= queue.MaxPriority && last == nil; p++ {
		last = l.fifoOf(p).back()
	}
	if n := x.middle.len(); n > 0 && (last == nil || x.middle.at(n-1).turn > last.turn) {
		return x.middle.at(n - 1)
	}
	return last
}

func (l *waitList) insert(j *job) {
	if !l.fifoOf(j.priority()).insert(j) {
		l.needExtra().middle.push(j)
	}
}

func (l *waitList) remove(j *job) {
	if f := l.fifoOf(j.priority()); !f.remove(j) {
		l.extra.middle.remove(j)
	}
	if x := l.extra; x != nil && x.above(0) == 0 && x.middle.len() == 0 {
		l.extra = nil
	}
}

func (l *waitList) rank(j *job) int {
	if l.extra == nil && l.low.back() == j { // mostly it is the last
		return l.low.n - 1
	}
	return l.search(j.turn)
}

// search returns how many jobs wait before a turn.
func (l *waitList) search(turn int64) int {
	x := l.extra
	p := priorityOf(turn)
	switch {
	case x == nil && p == 0:
		return l.low.search(turn)
	case x == nil:
		return 0
	}
	return x.above(p) + l.fifoOf(p).search(turn) + x.middle.before(func(j *job) bool { return j.turn >= turn })
}

// of yields the jobs of a priority from a turn on.
func (l *waitList) of(priority int, turn int64) func(yield func(*job) bool) {
	return func(yield func(*job) bool) {
		if l.extra == nil && priority > 0 {
			return
		}
		f := l.fifoOf(priority)
		i := f.search(turn)
		if x := l.extra; x != nil {
			turn = max(turn, int64(queue.MaxPriority-priority)<<priorityShift)
			for j := range x.middle.from(func(j *job) bool { return j.turn >= turn }) {
				if j.priority() != priority {
					break
				}
				for ; i < f.n && f.at(i).turn < j.turn; i++ {
					if !yield(f.at(i)) {
						return
					}
				}
				if !yield(j) {
					return
				}
			}
		}
		for ; i < f.n; i++ {
			if !yield(f.at(i)) {
				return
			}
		}
	}
}

// from yields the jobs from a turn on.
func (l *waitList) from(turn int64) func(yield func(*job) bool) {
	return func(yield func(*job) bool) {
		for p := queue.MaxPriority; p >= 0; p-- {
			for j := range l.of(p, turn) {
				if !yield(j) {
					return
				}
			}
		}
	}
}

// before yields the jobs whose turn without priority is before base.
func (l *waitList) before(base int64) func(yield func(*job) bool) {
	return func(yield func(*job) bool) {
		for p := queue.MaxPriority; p >= 0; p-- {
			for j := range l.of(p, 0) {
				if j.turnBase() >= base {
					break
				}
				if !yield(j) {
					return
				}
			}
		}
	}
}

// fifo holds waiting jobs in order of turn, in a ring: access to the ends is O(1), a rank O(log n). A job that comes
// back is inserted near an end, usually the front, or not at all.
type fifo struct {
	ring []*job // the length is a power of two
	head int
	n    int
}

func (f *fifo) at(i int) *job { return f.ring[(f.head+i)&(len(f.ring)-1)] }

func (f *fifo) set(i int, j *job) { f.ring[(f.head+i)&(len(f.ring)-1)] = j }

func (f *fifo) front() *job { return f.at(0) }

// back returns the last job, or nil.
func (f *fifo) back() *job {
	if f.n == 0 {
		return nil
	}
	return f.at(f.n - 1)
}

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

// remove removes j, and reports whether it was there.
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

// nearEnd is the maximum number of jobs that are moved to insert one.
const nearEnd = 64

// insert inserts j at its turn. It returns false if that is too far from both ends.
func (f *fifo) insert(j *job) bool {
	i := f.n
	if i > 0 && f.at(i-1).turn > j.turn {
		if i = f.search(j.turn); min(i, f.n-i) > nearEnd {
			return false
		}
	}
	if f.n == len(f.ring) {
		f.resize(max(1, 2*len(f.ring)))
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
