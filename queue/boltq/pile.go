package boltq

// chunkList is what is taken off later, roughly in the order in which it came. It lies in pieces: to move a million to where there is
// room for more would hold up everybody.
type chunkList[T any] struct {
	chunks [][]T
	n      int
}

const chunkMax = batchForgets

func (p *chunkList[T]) add(vs ...T) {
	for _, v := range vs {
		last := len(p.chunks) - 1
		if last < 0 || len(p.chunks[last]) == chunkMax {
			p.chunks = append(p.chunks, nil)
			last++
		}
		p.chunks[last] = append(p.chunks[last], v)
	}
	p.n += len(vs)
}

// take takes up to limit off, and at least one if there are any.
func (p *chunkList[T]) take(limit int) []T {
	if p.n == 0 {
		return nil
	}
	first := p.chunks[0]
	k := min(limit, len(first))
	p.chunks[0] = first[k:]
	if k == len(first) {
		p.chunks = p.chunks[1:]
	}
	p.n -= k
	return first[:k:k]
}
