package boltq

import "hash/maphash"

// index is a hash table without keys: a slot holds the hash of an id in its upper
// half, and in its lower one the number under which the owner finds the id to
// compare it. Collisions go to the next slot.
type index struct {
	slots []uint64 // 0 is free
	n     int
}

var seed = maphash.MakeSeed()

// hashOf is a hash of 32 bits that is never 0, so that no slot in use is.
func hashOf(id string) uint64 { return maphash.String(seed, id)>>32 | 1 }

// home is where the slot of a hash should be: any length will do, and the slots
// stay in order of hash, so that growing runs through memory once.
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

// remove frees the slot at i, and moves back those that were displaced beyond it.
func (x *index) remove(i int) {
	for j := x.next(i); x.slots[j] != 0; j = x.next(j) {
		home := x.home(x.slots[j] >> 32)
		stays := i < home && home <= j
		if j < i { // over the end
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
