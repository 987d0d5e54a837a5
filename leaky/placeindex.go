package leaky

import "hash/maphash"

// placeSeed keeps callers from choosing names that all fall into one chain.
var placeSeed = maphash.MakeSeed()

// Places are found by chains of hashes. A map would hash the name for each lookup, insertion and removal, which was
// half the cost of a decision; a place remembers its hash.

// find returns the place of a name, or 0, and the hash of the name.
func (t *placeTable) find(name string) (i int32, hash uint64) {
	hash = maphash.String(placeSeed, name)
	i = *t.head(hash)
	for i != 0 && (t.places[i].hash != hash || t.places[i].name != name) {
		i = t.places[i].chain
	}
	return i, hash
}

func (t *placeTable) head(hash uint64) *int32 { return &t.heads[hash&uint64(len(t.heads)-1)] }

// enter adds a place to the chain of its hash. On average a chain has one place.
func (t *placeTable) enter(i int32) {
	if t.n++; t.n > len(t.heads) {
		before := t.heads
		t.heads = make([]int32, 2*len(before))
		for _, k := range before {
			for k != 0 {
				next := t.places[k].chain
				t.chain(k)
				k = next
			}
		}
	}
	t.chain(i)
}

func (t *placeTable) chain(i int32) {
	head := t.head(t.places[i].hash)
	t.places[i].chain, *head = *head, i
}

// leave removes a place from its chain.
func (t *placeTable) leave(i int32) {
	t.n--
	at := t.head(t.places[i].hash)
	for *at != i {
		at = &t.places[*at].chain
	}
	*at = t.places[i].chain
}
