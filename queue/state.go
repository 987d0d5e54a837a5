package queue

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/queue/invalid"
)

// State is where a job is. Every accepted job is in exactly one state.
type State uint8

// The states, with the same names in the API, the CLI and metrics. A queue's capacity counts waiting, scheduled,
// leased and held jobs.
const (
	StateNone State = iota // no such job
	Waiting                // in the FIFO
	Scheduled              // waits for its not_before, or for a retry after a failed attempt
	Leased                 // granted to a client, departing or departed
	Deferred               // on the overflow
	Delivered              // done
	Dead                   // not tried again unless a person replays it
	Held                   // may have been sent; waits for a person's decision
	Cancelled              // cancelled by its owner
	Expired                // its expires_at passed
)

var stateNames = [...]string{
	"", "waiting", "scheduled", "leased", "deferred", "delivered", "dead", "held", "cancelled", "expired",
}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state's name.
func (s *State) UnmarshalText(b []byte) error {
	for i, name := range stateNames {
		if i > 0 && name == string(b) {
			*s = State(i)
			return nil
		}
	}
	return invalid.Errorf("state", string(b), "is not a state; use one of %s", strings.Join(stateNames[1:], " "))
}

// Ended reports whether a job in this state has given up its place in the queue.
func (s State) Ended() bool { return s == Delivered || s == Dead || s == Cancelled || s == Expired }
