package push

import "encoding/json"

// Lines of a full lane are parked while more of the file is read, up to these limits.
const (
	maxParked      = 10 // batches
	maxParkedBytes = 16 << 20
	// probe is the number of lines of a full lane to send at a time, since it has room for few.
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

// laneOf returns the lane of a line, if any lane was full so far.
func (p *pusher) laneOf(h *held) string {
	if !p.lanes || h.laned {
		return h.lane
	}
	h.laned = true
	_ = members(h.Body, func(name string, value json.RawMessage) { // it was parsed before
		if name == "lane" {
			_ = json.Unmarshal(value, &h.lane) // the server refuses a lane that is not a string
		}
	})
	return h.lane
}

// fullLanes has, for each full lane, the number of lines that may still be sent in this pass over the held lines.
type fullLanes map[string]int

// keep reports whether a line must wait behind others of its lane. early means that it is not due yet.
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
