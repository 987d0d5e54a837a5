package machine

// tallyHeap is the tallies of a set by checkAt: a binary heap like heap, but in pages, since there may be millions;
// see chunkList.
type tallyHeap struct {
	pages [][]*tally
	n     int
}

const tallyHeapPage = 1024

func (w *tallyHeap) len() int { return w.n }

func (w *tallyHeap) top() *tally { return w.at(0) }

func (w *tallyHeap) at(i int) *tally { return w.pages[i/tallyHeapPage][i%tallyHeapPage] }

func (w *tallyHeap) set(i int, t *tally) {
	w.pages[i/tallyHeapPage][i%tallyHeapPage] = t
	t.heapIndex = int32(i)
}

func (w *tallyHeap) push(t *tally) {
	page := w.n / tallyHeapPage
	if page == len(w.pages) {
		w.pages = append(w.pages, nil)
	}
	if w.n%tallyHeapPage == len(w.pages[page]) { // pages grow, since most sets are small
		w.pages[page] = append(w.pages[page], nil)
	}
	w.n++
	w.set(w.n-1, t)
	w.up(w.n - 1)
}

func (w *tallyHeap) remove(t *tally) {
	i := int(t.heapIndex)
	w.n--
	last := w.at(w.n)
	w.pages[w.n/tallyHeapPage][w.n%tallyHeapPage] = nil
	if last != t {
		w.set(i, last)
		w.fix(i)
	}
	t.heapIndex = -1
	if spare := len(w.pages) - 2; spare >= 0 && w.n <= spare*tallyHeapPage {
		w.pages[spare+1] = nil
		w.pages = w.pages[:spare+1]
	}
}

// fix restores the order after the one at i changed.
func (w *tallyHeap) fix(i int) {
	if !w.down(i) {
		w.up(i)
	}
}

func (w *tallyHeap) up(i int) {
	t := w.at(i)
	for i > 0 && t.checkAt < w.at((i-1)/2).checkAt {
		w.set(i, w.at((i-1)/2))
		i = (i - 1) / 2
	}
	w.set(i, t)
}

func (w *tallyHeap) down(i int) (sank bool) {
	t := w.at(i)
	for {
		child := 2*i + 1
		if child+1 < w.n && w.at(child+1).checkAt < w.at(child).checkAt {
			child++
		}
		if child >= w.n || w.at(child).checkAt >= t.checkAt {
			w.set(i, t)
			return sank
		}
		w.set(i, w.at(child))
		i, sank = child, true
	}
}

// chunkList is a FIFO, roughly, in chunks: a single slice of millions of values would hold up everybody whenever it
// grew.
type chunkList[T any] struct {
	chunks [][]T
	n      int
}

const chunkMax = commitForgets

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

// take takes off up to limit values, and at least one if there are any.
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
