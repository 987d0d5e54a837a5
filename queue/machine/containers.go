package machine

import (
	"slices"
	"sort"
)

// heap is a heap with four children per node. Its items know their index, so that an item in the middle can be removed
// or moved. The sort key is stored beside each item, as of when it was pushed or fixed. There may be a million items,
// and following the pointer to one costs more than everything else.
type heap[T any] struct {
	items []heapItem[T]
	key   func(T) heapKey
	less  func(a, b T) bool // orders items with equal keys; may be nil
	moved func(T, int)      // called with an item's new index, -1 when removed; may be nil
}

type heapItem[T any] struct {
	key  heapKey
	item T
}

// heapKey orders items by a number, then by a tie-breaker.
type heapKey struct {
	at  int64
	tie uint64
}

func (h *heap[T]) len() int { return len(h.items) }

func (h *heap[T]) top() T { return h.items[0].item }

// all yields the items in no order.
func (h *heap[T]) all(yield func(T) bool) {
	for i := range h.items {
		if !yield(h.items[i].item) {
			return
		}
	}
}

func (h *heap[T]) push(v T) {
	h.items = append(h.items, heapItem[T]{h.key(v), v})
	h.up(len(h.items) - 1)
}

func (h *heap[T]) pop() T {
	v := h.top()
	h.remove(0)
	return v
}

func (h *heap[T]) remove(i int) {
	last := len(h.items) - 1
	out, end := h.items[i].item, h.items[last]
	h.items[last] = heapItem[T]{}
	h.items = h.items[:last]
	if i != last {
		h.items[i] = end
		h.restore(i)
	}
	if h.moved != nil {
		h.moved(out, -1)
	}
	if last < cap(h.items)/8 && cap(h.items) > 256 { // free memory
		h.items = append(make([]heapItem[T], 0, cap(h.items)/4), h.items...)
	}
}

// fix restores the order after the item at i changed.
func (h *heap[T]) fix(i int) {
	h.items[i].key = h.key(h.items[i].item)
	h.restore(i)
}

func (h *heap[T]) restore(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *heap[T]) up(i int) {
	v := h.items[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !h.before(&v, &h.items[parent]) {
			break
		}
		h.set(i, h.items[parent])
		i = parent
	}
	h.set(i, v)
}

// down moves the item at i down to its place, and reports whether it moved.
func (h *heap[T]) down(i int) (sank bool) {
	v := h.items[i]
	for first := 4*i + 1; first < len(h.items); first = 4*i + 1 {
		least := first
		for child := first + 1; child < min(first+4, len(h.items)); child++ {
			if h.before(&h.items[child], &h.items[least]) {
				least = child
			}
		}
		if !h.before(&h.items[least], &v) {
			break
		}
		h.set(i, h.items[least])
		i, sank = least, true
	}
	if sank {
		h.set(i, v)
	}
	return sank
}

func (h *heap[T]) set(i int, v heapItem[T]) {
	h.items[i] = v
	if h.moved != nil {
		h.moved(v.item, i)
	}
}

func (h *heap[T]) before(a, b *heapItem[T]) bool {
	switch {
	case a.key.at != b.key.at:
		return a.key.at < b.key.at
	case a.key.tie != b.key.tie:
		return a.key.tie < b.key.tie
	}
	return h.less != nil && h.less(a.item, b.item)
}

// sorted keeps distinct values in order, in blocks. A value in the middle can be found, inserted or removed, and a page
// read from anywhere, at little cost. nil is empty, and pushTo creates it.
type sorted[T comparable] struct {
	less   func(a, b T) bool
	blocks [][]T // none of them empty
	n      int
}

const sortedBlock = 256

// pushTo pushes a value, and creates the list for its first value: most queues need none of theirs.
func pushTo[T comparable](s **sorted[T], less func(a, b T) bool, v T) {
	if *s == nil {
		*s = &sorted[T]{less: less}
	}
	(*s).push(v)
}

func (s *sorted[T]) len() int {
	if s == nil {
		return 0
	}
	return s.n
}

func (s *sorted[T]) top() T { return s.blocks[0][0] }

// at returns the item that has i others before it.
func (s *sorted[T]) at(i int) T {
	b := 0
	for ; i >= len(s.blocks[b]); b++ {
		i -= len(s.blocks[b])
	}
	return s.blocks[b][i]
}

func (s *sorted[T]) pop() T {
	v := s.top()
	s.removeAt(0, 0)
	return v
}

func (s *sorted[T]) popLast() T {
	b := len(s.blocks) - 1
	i := len(s.blocks[b]) - 1
	v := s.blocks[b][i]
	s.removeAt(b, i)
	return v
}

func (s *sorted[T]) push(v T) {
	s.n++
	if len(s.blocks) == 0 {
		s.blocks = append(s.blocks, []T{v})
		return
	}
	b, i := s.search(func(w T) bool { return !s.less(w, v) })
	if b == len(s.blocks) { // greater than all
		b--
		i = len(s.blocks[b])
	}
	block := slices.Insert(s.blocks[b], i, v)
	s.blocks[b] = block
	if len(block) > sortedBlock {
		half := len(block) / 2
		if i == len(block)-1 { // most values are added at the end
			half = i
		}
		s.blocks = slices.Insert(s.blocks, b+1, append([]T(nil), block[half:]...))
		clear(block[half:])
		s.blocks[b] = block[:half]
	}
}

// remove removes v, and reports whether it was there.
func (s *sorted[T]) remove(v T) bool {
	if s == nil {
		return false
	}
	b, i := s.search(func(w T) bool { return !s.less(w, v) })
	if b == len(s.blocks) || s.blocks[b][i] != v {
		return false
	}
	s.removeAt(b, i)
	return true
}

func (s *sorted[T]) removeAt(b, i int) {
	s.n--
	block := slices.Delete(s.blocks[b], i, i+1)
	s.blocks[b] = block
	switch {
	case len(block) == 0:
		s.blocks = slices.Delete(s.blocks, b, b+1)
	case b+1 < len(s.blocks) && len(block)+len(s.blocks[b+1]) < sortedBlock/4:
		s.blocks[b] = append(block, s.blocks[b+1]...)
		s.blocks = slices.Delete(s.blocks, b+1, b+2)
	}
}

// search returns the position of the first value v with is(v). All later values must satisfy is, too.
func (s *sorted[T]) search(is func(T) bool) (b, i int) {
	b = sort.Search(len(s.blocks), func(b int) bool { return is(s.blocks[b][len(s.blocks[b])-1]) })
	if b == len(s.blocks) {
		return b, 0
	}
	return b, sort.Search(len(s.blocks[b]), func(i int) bool { return is(s.blocks[b][i]) })
}

// before returns how many values come before the first value v with is(v).
func (s *sorted[T]) before(is func(T) bool) int {
	b, n := s.search(is)
	for _, block := range s.blocks[:b] {
		n += len(block)
	}
	return n
}

// from yields the first value v with is(v) and all later ones. The list must not be changed meanwhile.
func (s *sorted[T]) from(is func(T) bool) func(yield func(T) bool) {
	return func(yield func(T) bool) {
		if s == nil {
			return
		}
		b, i := s.search(is)
		for ; b < len(s.blocks); b, i = b+1, 0 {
			for _, v := range s.blocks[b][i:] {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// ring is a queue in a circular buffer that grows.
type ring[T any] struct {
	items []T
	head  int
	n     int
}

func (r *ring[T]) at(i int) T { return r.items[(r.head+i)%len(r.items)] }

// len returns 0 if r is nil.
func (r *ring[T]) len() int {
	if r == nil {
		return 0
	}
	return r.n
}

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
