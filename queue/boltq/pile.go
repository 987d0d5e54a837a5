package boltq

// pile is what is taken off later, roughly in the order in which it came. It lies in pieces: to move a million to where there is
// room for more would hold up everybody.
type pile[T any] struct {
	pieces [][]T
	n      int
}

const pieceMax = batchForgets

func (p *pile[T]) add(vs ...T) {
	for _, v := range vs {
		last := len(p.pieces) - 1
		if last < 0 || len(p.pieces[last]) == pieceMax {
			p.pieces = append(p.pieces, nil)
			last++
		}
		p.pieces[last] = append(p.pieces[last], v)
	}
	p.n += len(vs)
}

// take takes up to limit off, and at least one if there are any.
func (p *pile[T]) take(limit int) []T {
	if p.n == 0 {
		return nil
	}
	first := p.pieces[0]
	k := min(limit, len(first))
	p.pieces[0] = first[k:]
	if k == len(first) {
		p.pieces = p.pieces[1:]
	}
	p.n -= k
	return first[:k:k]
}
