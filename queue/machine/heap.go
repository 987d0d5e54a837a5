package machine

// heap is a heap with four children a node. Its items know their place, so that one in the middle can be removed or
// moved. What orders an item stands beside it, as of when it was pushed or fixed: there may be a million, and to look
// at one of them costs more than all else.
type heap[T any] struct {
	items []heapItem[T]
	key   func(T) heapKey
	less  func(a, b T) bool // of items with equal keys; nil if nothing orders them
	moved func(T, int)      // is told an item's index, -1 when it is out; nil if nobody need know
}

type heapItem[T any] struct {
	key  heapKey
	item T
}

// heapKey orders items: by a number, and where that is equal by the other.
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
	if last < cap(h.items)/8 && cap(h.items) > 256 { // give memory back
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

// up moves the item at i up to its place.
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

// down moves the item at i down to its place, and reports whether it had to.
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
