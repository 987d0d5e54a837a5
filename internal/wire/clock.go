package wire

import (
	"time"

	"github.com/penstock/penstock/queue/unit"
)

// Advance is a request to advance the clock of a server for tests.
type Advance struct {
	Advance unit.Duration `json:"advance"`
}

// Clock is the time that the clock of a server shows.
type Clock struct {
	Now *time.Time `json:"now"`
}
