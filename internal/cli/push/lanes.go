package push

import "encoding/json"

// A lane that is full keeps its own lines and nobody else's: they are parked while the
// file is read on, so many of them.
const (
	maxParked      = 10 // batches
	maxParkedBytes = 16 << 20
	// probe is how many lines of a full lane are sent at a time: it has room for few.
	probe = 16
)

// mayRead reports whether the next lines of the file may be read.
func (p *pusher) mayRead() bool {
	if p.ended || len(p.held) >= maxParked*p.o.Batch {
		return false
	}
	bytes := 0
	for i := range p.held {
		if bytes += len(p.held[i].Body); !p.held[i].parked || bytes > maxParkedBytes {
			return false
		}
	}
	return true
}

// laneOf returns the lane of a line, once some lane was full.
func (p *pusher) laneOf(h *held) string {
	if !p.lanes || h.laned {
		return h.lane
	}
	h.laned = true
	_ = members(h.Body, func(name string, value json.RawMessage) { // it was read before
		if name == "lane" {
			_ = json.Unmarshal(value, &h.lane) // what is no string is the server's to refuse
		}
	})
	return h.lane
}

// fullLanes is how many lines more of each full lane may be sent, as the lines are gone
// through in their order.
type fullLanes map[string]int

// keep reports whether a line stays behind others of its lane; early is one whose time
// has not come.
func (f fullLanes) keep(lane string, h *held, early bool) bool {
	if lane == "" {
		return false
	}
	left, full := f[lane]
	switch {
	case full && left == 0:
		h.parked = true
		return true
	case !full && !h.parked:
		return false
	case !full:
		left = probe
	}
	if early {
		left = 1
	}
	f[lane] = left - 1
	return false
}
