package machine

import (
	"bytes"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// tally is what was taken from a rule under one key. There may be millions, so it is small, and its state is usually
// packed.
type tally struct {
	set       *tallySet
	digest    queue.LaneDigest // of the key
	number    uint64           // its key in the file
	expires   leaky.Instant    // when its state equals a fresh one, by the limiter that last wrote it
	checkAt   leaky.Instant    // when to check whether it has expired
	unpacked  *unpackedTally   // nil if the state is packed
	heapIndex int32            // in its set's heap; -1 if it is not inserted yet
	dirty     bool             // changed since it was last put into a commit
	inCommit  bool             // it is in the current commit
	onFile    bool             // it may be on file
	gone      bool
	size      uint8
	packed    [packedMax]byte // the encoded state, in size bytes; empty for a fresh one
}

// packedMax makes a tally 112 bytes, a size class of Go's allocator. That is enough for one place of a concurrency
// limiter, or the first entries of a log.
const packedMax = 47

// unpackedTally is a state that is too large to be packed.
type unpackedTally struct {
	limiter     leaky.Limiter // by which the state is read
	correctedBy leaky.Limiter // by which it was last corrected: see keepCorrected
	state       leaky.Tally   // with everything that was taken
	size        int           // of its last encoding
}

func (t *tally) expired(now leaky.Instant) bool { return t.expires <= now }

// stateFor returns the state as l reads it. A caller that changes it stores it.
func (t *tally) stateFor(l leaky.Limiter) leaky.Tally {
	switch {
	case t.unpacked == nil && t.size == 0:
		return l.Fresh()
	case t.unpacked == nil:
		return restoreOrFresh(t.packed[:t.size], l)
	case t.unpacked.limiter == l:
		return t.unpacked.state
	}
	s := readAs(t.unpacked.state, l)
	// a log, or places: reading them by another limiter loses nothing, but is slow
	if t.unpacked.size > packedMax {
		t.unpacked.limiter, t.unpacked.state = l, s
	}
	return s
}

func readAs(s leaky.Tally, l leaky.Limiter) leaky.Tally {
	text, _ := s.AppendBinary(nil) // it never fails
	return restoreOrFresh(text, l)
}

func restoreOrFresh(text []byte, l leaky.Limiter) leaky.Tally {
	s, err := l.Restore(text)
	if err != nil {
		return l.Fresh()
	}
	return s
}

// setState stores a state, packed if possible.
func (t *tally) setState(s leaky.Tally, l leaky.Limiter, now leaky.Instant) {
	t.expires = s.Expires(now)
	if t.unpacked == nil {
		if t.pack(s) {
			return
		}
		t.unpacked = &unpackedTally{size: packedMax + 1}
	}
	t.unpacked.limiter, t.unpacked.correctedBy, t.unpacked.state = l, l, s
}

func (t *tally) pack(s leaky.Tally) bool {
	text, _ := s.AppendBinary(t.packed[:0])
	if len(text) > packedMax {
		return false
	}
	t.size = uint8(len(text))
	return true
}

// repack packs the state again when that has become possible.
func (t *tally) repack() {
	if v := t.unpacked; v != nil && v.size <= packedMax && t.pack(v.state) {
		t.unpacked = nil
	}
}

// differs reports whether a state differs from the stored one, or was read by another limiter.
func (t *tally) differs(s leaky.Tally, l leaky.Limiter) bool {
	if t.unpacked != nil {
		return t.unpacked.correctedBy != l
	}
	text, _ := s.AppendBinary(make([]byte, 0, packedMax))
	return !bytes.Equal(text, t.packed[:t.size])
}

func (t *tally) record() []byte {
	c := &codec{b: make([]byte, 0, 2*8+len(t.digest)+packedMax)}
	codeTallyHead(c, &t.set.number, &t.expires, &t.digest)
	v := t.unpacked
	if v == nil {
		return append(c.b, t.packed[:t.size]...)
	}
	b, _ := v.state.AppendBinary(c.b)
	v.size = len(b) - len(c.b)
	return b
}

func codeTallyHead(c *codec, set *uint64, expires *leaky.Instant, digest *queue.LaneDigest) {
	c.fields(set, expires)
	c.raw(digest[:])
}

// decodeTally decodes a record; the state shares memory with b.
func decodeTally(b []byte) (set uint64, expires leaky.Instant, digest queue.LaneDigest, state []byte, err error) {
	c := decoder(b)
	codeTallyHead(c, &set, &expires, &digest)
	return set, expires, digest, c.b, c.err("tally")
}

// tallyHeap orders the tallies of a set by checkAt. It is a binary heap like heap, but in pages, since there may be
// millions; see chunkList.
type tallyHeap struct {
	pages [][]*tally
	n     int
}

const tallyHeapPage = 1024

func (h *tallyHeap) len() int { return h.n }

func (h *tallyHeap) top() *tally { return h.at(0) }

func (h *tallyHeap) at(i int) *tally { return h.pages[i/tallyHeapPage][i%tallyHeapPage] }

func (h *tallyHeap) set(i int, t *tally) {
	h.pages[i/tallyHeapPage][i%tallyHeapPage] = t
	t.heapIndex = int32(i)
}

func (h *tallyHeap) push(t *tally) {
	page := h.n / tallyHeapPage
	if page == len(h.pages) {
		h.pages = append(h.pages, nil)
	}
	if h.n%tallyHeapPage == len(h.pages[page]) { // pages grow, since most sets are small
		h.pages[page] = append(h.pages[page], nil)
	}
	h.n++
	h.set(h.n-1, t)
	h.up(h.n - 1)
}

func (h *tallyHeap) remove(t *tally) {
	i := int(t.heapIndex)
	h.n--
	last := h.at(h.n)
	h.pages[h.n/tallyHeapPage][h.n%tallyHeapPage] = nil
	if last != t {
		h.set(i, last)
		h.fix(i)
	}
	t.heapIndex = -1
	if spare := len(h.pages) - 2; spare >= 0 && h.n <= spare*tallyHeapPage {
		h.pages[spare+1] = nil
		h.pages = h.pages[:spare+1]
	}
}

func (h *tallyHeap) fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *tallyHeap) up(i int) {
	t := h.at(i)
	for i > 0 && t.checkAt < h.at((i-1)/2).checkAt {
		h.set(i, h.at((i-1)/2))
		i = (i - 1) / 2
	}
	h.set(i, t)
}

func (h *tallyHeap) down(i int) (sank bool) {
	t := h.at(i)
	for {
		child := 2*i + 1
		if child+1 < h.n && h.at(child+1).checkAt < h.at(child).checkAt {
			child++
		}
		if child >= h.n || h.at(child).checkAt >= t.checkAt {
			h.set(i, t)
			return sank
		}
		h.set(i, h.at(child))
		i, sank = child, true
	}
}

// chunkList is a FIFO, roughly, in chunks: a single slice of millions of values would block the machine whenever it
// grew.
type chunkList[T any] struct {
	chunks [][]T
	n      int
}

const chunkMax = commitForgets

func (l *chunkList[T]) add(vs ...T) {
	for _, v := range vs {
		last := len(l.chunks) - 1
		if last < 0 || len(l.chunks[last]) == chunkMax {
			l.chunks = append(l.chunks, nil)
			last++
		}
		l.chunks[last] = append(l.chunks[last], v)
	}
	l.n += len(vs)
}

// take removes up to limit values, and at least one if there are any.
func (l *chunkList[T]) take(limit int) []T {
	if l.n == 0 {
		return nil
	}
	first := l.chunks[0]
	k := min(limit, len(first))
	l.chunks[0] = first[k:]
	if k == len(first) {
		l.chunks = l.chunks[1:]
	}
	l.n -= k
	return first[:k:k]
}
