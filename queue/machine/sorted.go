package machine

import (
	"slices"
	"sort"
)

// sorted keeps distinct values in order, in blocks: a value in the middle can be found, inserted or removed, and a
// page read from anywhere, at little cost. nil is empty, and pushTo makes it.
type sorted[T comparable] struct {
	less   func(a, b T) bool
	blocks [][]T // none is empty
	n      int
}

const sortedBlock = 256

// pushTo pushes a value to what is made for its first one: most queues need none of theirs.
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
		if i == len(block)-1 { // most come in at the end
			half = i
		}
		s.blocks = slices.Insert(s.blocks, b+1, append([]T(nil), block[half:]...))
		clear(block[half:])
		s.blocks[b] = block[:half]
	}
}

// remove takes v out, and reports whether it was there.
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

// search returns where the first value is for which is holds. It must hold for all values behind that.
func (s *sorted[T]) search(is func(T) bool) (b, i int) {
	b = sort.Search(len(s.blocks), func(b int) bool { return is(s.blocks[b][len(s.blocks[b])-1]) })
	if b == len(s.blocks) {
		return b, 0
	}
	return b, sort.Search(len(s.blocks[b]), func(i int) bool { return is(s.blocks[b][i]) })
}

// before returns how many values are before the first for which is holds.
func (s *sorted[T]) before(is func(T) bool) int {
	b, n := s.search(is)
	for _, block := range s.blocks[:b] {
		n += len(block)
	}
	return n
}

// from yields the values from the first on for which is holds. They must not be changed meanwhile.
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
