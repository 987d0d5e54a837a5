package boltq

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
