package sms

import "sync"

const maxSeen = 10_000

// seen remembers the ids of the latest texts that are known to belong to a job, so that none is taken for that of
// another job with the same text to the same number.
type seen struct {
	mu   sync.Mutex
	ids  map[string]struct{}
	ring []string
	next int
}

func newSeen() *seen { return &seen{ids: make(map[string]struct{})} }

func (s *seen) add(id string) {
	if id == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) < maxSeen {
		s.ring = append(s.ring, id)
	} else {
		delete(s.ids, s.ring[s.next])
		s.ring[s.next] = id
		s.next = (s.next + 1) % maxSeen
	}
	s.ids[id] = struct{}{}
}

func (s *seen) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.ids[id]
	return ok
}
