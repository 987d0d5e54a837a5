package boltq

import (
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// endedJobs is what a queue remembers of jobs that ended: bounded in age and
// number, delivered and dead counted apart, the oldest forgotten first. Its dead stand
// among the letters of its name.
type endedJobs struct {
	byID   map[string]*endedJob
	others ring[*endedJob]
}

// byEndTime is the order of the dead: by when they died, ties by id.
func byEndTime(a, b *endedJob) bool {
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.id != b.id:
		return a.id < b.id
	}
	return a.key < b.key
}

// find returns what is remembered of id and not too old.
func (m *endedJobs) find(id string, r queue.Retention, now leaky.Instant) *endedJob {
	d := m.byID[id]
	if d == nil || tooOld(d, r, now) {
		return nil
	}
	return d
}

func tooOld(d *endedJob, r queue.Retention, now leaky.Instant) bool {
	return now.Sub(d.at) >= r.For.D()
}

// add remembers d.
func (m *endedJobs) add(d *endedJob) {
	m.byID[d.id] = d
	if d.state != queue.Dead {
		m.others.push(d)
	}
}

// take takes a dead job out.
func (m *endedJobs) take(d *endedJob) {
	if m.byID[d.id] == d {
		delete(m.byID, d.id)
	}
}

// trim forgets up to limit of what ended otherwise than dead and is too old or too many, and returns it.
func (m *endedJobs) trim(r queue.Retention, now leaky.Instant, limit int) []*endedJob {
	var gone []*endedJob
	for len(gone) < limit && m.others.len() > 0 && (int64(m.others.len()) > r.Max || tooOld(m.others.top(), r, now)) {
		d := m.others.pop()
		if m.byID[d.id] == d { // the id may have been used again
			delete(m.byID, d.id)
		}
		gone = append(gone, d)
	}
	return gone
}

// ring is a queue of values in an array that grows.
type ring[T any] struct {
	items []T
	head  int
	n     int
}

func (r *ring[T]) at(i int) T { return r.items[(r.head+i)%len(r.items)] }

func (r *ring[T]) len() int { return r.n }

func (r *ring[T]) top() T { return r.at(0) }

func (r *ring[T]) push(v T) {
	if r.n == len(r.items) {
		items := make([]T, max(8, 2*r.n))
		for i := range r.n {
			items[i] = r.at(i)
		}
		r.items, r.head = items, 0
	}
	r.items[(r.head+r.n)%len(r.items)] = v
	r.n++
}

func (r *ring[T]) pop() T {
	var none T
	v := r.items[r.head]
	r.items[r.head] = none
	r.head = (r.head + 1) % len(r.items)
	r.n--
	return v
}
