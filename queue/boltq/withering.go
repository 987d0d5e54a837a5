package boltq

// withering is the tallies that may expire, by when they are looked at: a binary heap as heap is, but in pages, as there may be
// millions; see pile.
type withering struct {
	pages [][]*tally
	n     int
}

const witheringPage = 1024

func (w *withering) len() int { return w.n }

func (w *withering) top() *tally { return w.at(0) }

func (w *withering) at(i int) *tally { return w.pages[i/witheringPage][i%witheringPage] }

func (w *withering) set(i int, t *tally) {
	w.pages[i/witheringPage][i%witheringPage] = t
	t.place = int32(i)
}

func (w *withering) push(t *tally) {
	if w.n == len(w.pages)*witheringPage {
		w.pages = append(w.pages, make([]*tally, witheringPage))
	}
	w.n++
	w.set(w.n-1, t)
	w.up(w.n - 1)
}

func (w *withering) remove(t *tally) {
	i := int(t.place)
	w.n--
	last := w.at(w.n)
	w.pages[w.n/witheringPage][w.n%witheringPage] = nil
	if last != t {
		w.set(i, last)
		w.fix(i)
	}
	t.place = -1
	if spare := len(w.pages) - 2; spare >= 0 && w.n <= spare*witheringPage {
		w.pages[spare+1] = nil
		w.pages = w.pages[:spare+1]
	}
}

// fix restores the order after the one at i changed.
func (w *withering) fix(i int) {
	if !w.down(i) {
		w.up(i)
	}
}

func (w *withering) up(i int) {
	t := w.at(i)
	for i > 0 && t.looks < w.at((i-1)/2).looks {
		w.set(i, w.at((i-1)/2))
		i = (i - 1) / 2
	}
	w.set(i, t)
}

func (w *withering) down(i int) (sank bool) {
	t := w.at(i)
	for {
		child := 2*i + 1
		if child+1 < w.n && w.at(child+1).looks < w.at(child).looks {
			child++
		}
		if child >= w.n || w.at(child).looks >= t.looks {
			w.set(i, t)
			return sank
		}
		w.set(i, w.at(child))
		i, sank = child, true
	}
}
