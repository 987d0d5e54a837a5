package smstarget

import "sync"

const maxSeen = 10_000

// seen remembers the ids of the latest texts that are known to belong to a job, and what is being sent, so that none is
// taken for that of another job with the same text to the same number.
type seen struct {
	mu      sync.Mutex
	ids     map[string]struct{}
	ring    []string
	next    int
	sending map[twins]int
}

// twins are texts that a list of the provider's does not tell apart.
type twins struct{ to, body string }

func newSeen() *seen { return &seen{ids: make(map[string]struct{}), sending: make(map[twins]int)} }

// begin says that a text is being sent.
func (s *seen) begin(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sending[twins{m.To, m.Body}]++
}

// end says that it is no more, and what it is called, if there was an answer.
func (s *seen) end(m Message, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := twins{m.To, m.Body}
	if s.sending[k]--; s.sending[k] == 0 {
		delete(s.sending, k)
	}
	if id != "" {
		s.add(id)
	}
}

// take takes a text for a job's that had no answer, if it can be no other's. While a twin is being sent, nobody knows
// whose it is.
func (s *seen) take(m Message, id string) (taken, twin bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.ids[id]; known {
		return false, false
	}
	if s.sending[twins{m.To, m.Body}] > 0 {
		return false, true
	}
	s.add(id)
	return true, false
}

func (s *seen) add(id string) {
	if len(s.ring) < maxSeen {
		s.ring = append(s.ring, id)
	} else {
		delete(s.ids, s.ring[s.next])
		s.ring[s.next] = id
		s.next = (s.next + 1) % maxSeen
	}
	s.ids[id] = struct{}{}
}
