package machine

import (
	"hash/maphash"
	"slices"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/internal/jobsize"
)

// deferral records a deferred job. There may be a million, so it contains no pointer: the garbage collector skips whole
// pages of them.
type deferral struct {
	at          leaky.Instant // when it was deferred
	seq         uint64        // its key in the file
	fingerprint [8]byte
	id          uint32 // offset of its id in the page's ids
	size        uint32 // of the job's record
	cost        uint16
	length      uint8 // of the id
	state       deferralState
}

// bytes returns the size of the job, the same here as in the queue. Older files do not have the size of its record.
func (d *deferral) bytes() int64 { return jobsize.Of("", int(d.size)+int(d.length)) }

func (d *deferral) count() recordCount { return recordCount{1, int64(d.cost), d.bytes()} }

type deferralState uint8

const (
	noDeferral        deferralState = iota // ended, or never used
	stillDeferred                          // the job is on the overflow, as far as we know
	cancelledDeferral                      // the job was cancelled, and is dropped when it comes back
)

// deferrals keeps a queue's deferrals by number and by id. They arrive in order of number and end in nearly that order,
// so they lie in pages of consecutive numbers. An index finds the number of an id.
type deferrals struct {
	pages []*page // nil when all deferrals of the page have ended
	first uint64  // the number of pages[0]
	n     int
	ids   index
}

const pageSize = 256

type page struct {
	from    uint64 // the number of records[0]
	records []deferral
	ids     []byte
	n       int
}

func (ds *deferrals) page(number uint64) *page {
	if i := number/pageSize - ds.first; len(ds.pages) > 0 && i < uint64(len(ds.pages)) {
		return ds.pages[i]
	}
	return nil
}

// get returns the deferral of that number, or nil. It is valid until the next add.
func (ds *deferrals) get(number uint64) *deferral {
	p := ds.page(number)
	if p == nil || number < p.from || number-p.from >= uint64(len(p.records)) {
		return nil
	}
	if d := &p.records[number-p.from]; d.state != noDeferral {
		return d
	}
	return nil
}

// id returns the id of an existing deferral. It shares the page's memory.
func (ds *deferrals) id(number uint64) []byte {
	p := ds.page(number)
	d := &p.records[number-p.from]
	return p.ids[d.id:][:d.length]
}

// find returns the number of an id's deferral, or 0.
func (ds *deferrals) find(id string) uint64 {
	if ds.n == 0 {
		return 0
	}
	if at := ds.seek(id); at >= 0 {
		return ds.widen(ds.ids.slots[at])
	}
	return 0
}

// seek returns the slot of id, or -1.
func (ds *deferrals) seek(id string) int {
	h := hashOf(id)
	for i := ds.ids.home(h); ds.ids.slots[i] != 0; i = ds.ids.next(i) {
		if s := ds.ids.slots[i]; s>>32 == h && string(ds.id(ds.widen(s))) == id {
			return i
		}
	}
	return -1
}

// widen restores a number from its lower half, which a slot holds: all numbers in use lie within much less than 2^32.
func (ds *deferrals) widen(slot uint64) uint64 {
	base := ds.first * pageSize
	return base + uint64(uint32(slot)-uint32(base))
}

// add adds a deferral. Its number must be greater than all before, and its id must have no other deferral.
func (ds *deferrals) add(number uint64, id string, d deferral) {
	at := number / pageSize
	if len(ds.pages) == 0 {
		ds.first = at
	}
	for ds.first+uint64(len(ds.pages)) <= at {
		if n := len(ds.pages); n > 0 && ds.pages[n-1] != nil {
			ds.pages[n-1].close()
		}
		ds.pages = append(ds.pages, nil)
	}
	p := ds.pages[at-ds.first]
	if p == nil {
		p = &page{from: number}
		ds.pages[at-ds.first] = p
	}
	for p.from+uint64(len(p.records)) < number { // unused numbers
		p.records = append(p.records, deferral{})
	}
	d.id, d.length = uint32(len(p.ids)), uint8(len(id))
	p.ids = append(p.ids, id...)
	p.records = append(p.records, d)
	p.n++
	ds.n++
	ds.ids.add(hashOf(id)<<32 | uint64(uint32(number)))
}

// close frees memory that was allocated for more ids.
func (p *page) close() { p.ids = slices.Clone(p.ids) }

func (ds *deferrals) remove(number uint64) {
	ds.ids.remove(ds.seek(string(ds.id(number))))
	p := ds.page(number)
	p.records[number-p.from].state = noDeferral
	p.n--
	if ds.n--; ds.n == 0 {
		*ds = deferrals{}
		return
	}
	if p.n > 0 {
		return
	}
	ds.pages[number/pageSize-ds.first] = nil
	for ds.pages[0] == nil {
		ds.pages = ds.pages[1:]
		ds.first++
	}
}

func (ds *deferrals) oldest() uint64 {
	if ds.n == 0 {
		return 0
	}
	p := ds.pages[0]
	i := slices.IndexFunc(p.records, func(d deferral) bool { return d.state != noDeferral })
	return p.from + uint64(i)
}

// index is an open-addressing hash table without keys. The upper half of a slot is the hash of an id; the lower half is
// the number under which the owner finds the id to compare. Collisions go to the next slot.
type index struct {
	slots []uint64 // 0 is free
	n     int
}

var seed = maphash.MakeSeed()

// hashOf returns a hash of 32 bits, never 0, so that a used slot is never 0.
func hashOf(id string) uint64 { return maphash.String(seed, id)>>32 | 1 }

// home returns where the slot of a hash belongs. It keeps slots in order of hash, whatever the length, so growing runs
// through memory once.
func (x *index) home(hash uint64) int { return int(hash * uint64(len(x.slots)) >> 32) }

func (x *index) next(i int) int {
	if i++; i == len(x.slots) {
		return 0
	}
	return i
}

func (x *index) add(slot uint64) {
	if x.n >= len(x.slots)*3/4 {
		x.resize(max(8, len(x.slots)+len(x.slots)/4))
	}
	x.put(slot)
	x.n++
}

func (x *index) put(slot uint64) {
	i := x.home(slot >> 32)
	for x.slots[i] != 0 {
		i = x.next(i)
	}
	x.slots[i] = slot
}

// remove frees slot i, and moves back slots that were displaced past it.
func (x *index) remove(i int) {
	for j := x.next(i); x.slots[j] != 0; j = x.next(j) {
		home := x.home(x.slots[j] >> 32)
		stays := i < home && home <= j
		if j < i { // the table wraps around
			stays = i < home || home <= j
		}
		if !stays {
			x.slots[i] = x.slots[j]
			i = j
		}
	}
	x.slots[i] = 0
	if x.n--; len(x.slots) > 64 && x.n < len(x.slots)/4 {
		x.resize(len(x.slots) / 2)
	}
}

func (x *index) resize(size int) {
	old := x.slots
	x.slots = make([]uint64, size)
	for _, slot := range old {
		if slot != 0 {
			x.put(slot)
		}
	}
}
