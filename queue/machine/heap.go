package machine

// heap is a binary heap whose items know their place, so that one in the middle can be removed or moved. moved is
// told an item's index; -1 when it is out.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	moved func(T, int)
}

func (h *heap[T]) len() int { return len(h.items) }

func (h *heap[T]) top() T { return h.items[0] }

func (h *heap[T]) push(v T) {
	h.items = append(h.items, v)
	h.moved(v, len(h.items)-1)
	h.up(len(h.items) - 1)
}

func (h *heap[T]) pop() T {
	v := h.items[0]
	h.remove(0)
	return v
}

func (h *heap[T]) remove(i int) {
	var none T
	last := len(h.items) - 1
	h.moved(h.items[i], -1)
	if i != last {
		h.items[i] = h.items[last]
		h.moved(h.items[i], i)
	}
	h.items[last] = none
	h.items = h.items[:last]
	if i != last {
		h.fix(i)
	}
	if last < cap(h.items)/8 && cap(h.items) > 256 { // give memory back
		h.items = append(make([]T, 0, cap(h.items)/4), h.items...)
	}
}

// fix restores the order after the item at i changed.
func (h *heap[T]) fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap[T]) down(i int) (sank bool) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			return sank
		}
		if right := child + 1; right < len(h.items) && h.less(h.items[right], h.items[child]) {
			child = right
		}
		if !h.less(h.items[child], h.items[i]) {
			return sank
		}
		h.swap(i, child)
		i, sank = child, true
	}
}

func (h *heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.moved(h.items[i], i)
	h.moved(h.items[j], j)
}
