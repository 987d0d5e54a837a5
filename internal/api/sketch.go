package api

import (
	"cmp"
	"slices"
)

// sketchKeys is how many keys a sketch holds. Of n that were counted, a key that came more than n/sketchKeys times is
// among them.
const sketchKeys = 32

// sketch finds the keys that come most often among any number, in bounded memory (space-saving): a key that it does not
// hold takes the place of the one counted least, and its count, which may be too high by that much from then on, and is
// never too low.
type sketch struct {
	n    int64 // all that were counted
	keys []keyCount
	at   map[string]int // in keys
}

// keyCount is how often a key came, at most, and how much that may be too high.
type keyCount struct {
	key          string
	count, error int64
}

func (s *sketch) add(key string) {
	s.n++
	if i, known := s.at[key]; known {
		s.keys[i].count++
		return
	}
	if len(s.keys) < sketchKeys {
		if s.at == nil {
			s.at = make(map[string]int, sketchKeys)
		}
		s.at[key] = len(s.keys)
		s.keys = append(s.keys, keyCount{key: key, count: 1})
		return
	}
	least := 0
	for i := range s.keys {
		if s.keys[i].count < s.keys[least].count {
			least = i
		}
	}
	k := &s.keys[least]
	delete(s.at, k.key)
	s.at[key] = least
	*k = keyCount{key: key, count: k.count + 1, error: k.count}
}

// top are the keys that came most often, the first first. Those of which nothing is certain are left out.
func (s *sketch) top(most int) []keyCount {
	all := slices.DeleteFunc(slices.Clone(s.keys), func(k keyCount) bool { return k.count == k.error })
	slices.SortFunc(all, func(a, b keyCount) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.error, b.error), cmp.Compare(a.key, b.key))
	})
	return all[:min(len(all), most)]
}
