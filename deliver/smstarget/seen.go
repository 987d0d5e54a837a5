package smstarget

import "sync"

const maxSeen = 10_000

// seen remembers the IDs of recent texts that belong to a job, and the texts being sent. So if two jobs have the same
// text and number, neither gets the other's ID.
type seen struct {
	mu      sync.Mutex
	ids     map[string]struct{}
	ring    []string
	next    int
	sending map[twins]int
}

// twins are texts that look the same in the provider's list.
type twins struct{ to, body string }

func newSeen() *seen { return &seen{ids: make(map[string]struct{}), sending: make(map[twins]int)} }

// begin records that a text is being sent.
func (s *seen) begin(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sending[twins{m.To, m.Body}]++
}

// end records that a text is no longer being sent, and its ID if there was an answer.
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

// take assigns a listed text to a job without an answer, unless the text belongs to another job. It also fails, with
// twin set, while a twin is being sent: the listed text may then be the twin.
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
