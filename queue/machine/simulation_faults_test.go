package machine

import (
	"time"

	"github.com/penstock/penstock/leaky"
)

// strike does something that nobody wants.
func (s *simulation) strike() {
	if s.ending {
		return
	}
	switch s.IntN(6) {
	case 0:
		s.restart()
	case 1:
		if s.IntN(2) == 0 {
			s.jumped -= leaky.Instant(s.upTo(time.Minute).Microseconds())
			s.note("the clock jumps back")
		} else {
			by := s.upTo(time.Hour)
			s.jumped += leaky.Instant(by.Microseconds())
			s.note("the clock jumps forward")
			if by > followed { // paces know nothing of it
				s.newWindows()
				break
			}
		}
		s.newSegments(true)
	case 2:
		if d := s.drainers[s.IntN(len(s.drainers))]; d.alive {
			d.die()
		}
	case 3:
		d := s.drainers[s.IntN(len(s.drainers))]
		d.frozenUntil = s.at.Add(s.upTo(20 * time.Second))
		s.note("%s freezes until %v", d.name, d.frozenUntil.Sub(noon))
	case 4:
		s.store.fullUntil = s.at.Add(s.upTo(3 * time.Second))
		s.note("the disk is nearly full until %v", s.store.fullUntil.Sub(noon))
	case 5:
		s.readmitters[s.IntN(len(s.readmitters))].die()
	}
	s.later(s.upTo(10*time.Second), s.strike)
}
