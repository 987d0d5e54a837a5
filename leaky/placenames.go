package leaky

import "hash/maphash"

// placeSeed keeps those who choose names from choosing them all into one chain.
var placeSeed = maphash.MakeSeed()

// Places are found by chains of hashes: a map would hash the name for each of finding, adding and removing, which was half of what a decision cost, and a place knows its hash.

// find returns the place of a name, 0 if it has none, and its hash.
func (t *held) find(name string) (i int32, hash uint64) {
	hash = maphash.String(placeSeed, name)
	i = *t.head(hash)
	for i != 0 && (t.places[i].hash != hash || t.places[i].name != name) {
		i = t.places[i].chain
	}
	return i, hash
}

func (t *held) head(hash uint64) *int32 { return &t.heads[hash&uint64(len(t.heads)-1)] }

// enter puts a place into the chain of its hash. Chains are about one long.
func (t *held) enter(i int32) {
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

func (t *held) chain(i int32) {
	head := t.head(t.places[i].hash)
	t.places[i].chain, *head = *head, i
}

// leave takes a place out of its chain.
func (t *held) leave(i int32) {
	t.n--
	at := t.head(t.places[i].hash)
	for *at != i {
		at = &t.places[*at].chain
	}
	*at = t.places[i].chain
}
