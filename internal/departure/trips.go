package departure

import (
	"slices"
	"time"

	"github.com/penstock/penstock/queue"
)

// trips are the durations of a client's latest calls. The lead is the second longest: one slow call in eight, because
// of a pause for garbage or a busy processor, does not count. If calls become slow, two of them set the lead.
type trips struct {
	latest [8]time.Duration
	n      int // number of calls in latest
	next   int // index of the oldest, once latest is full
}

const (
	// tripAge is the pause after which only the shortest of the calls before it counts.
	tripAge = time.Second
	// firstLead is the maximum lead after the first call, which may have made a connection.
	firstLead = queue.Horizon / 2
)

// lead adds a call, which ended that long after the one before it, and returns the lead. The first call does not count
// later, because connections are new and scripts are not loaded.
func (t *trips) lead(took, after time.Duration, known bool) time.Duration {
	if !known {
		return min(took, firstLead)
	}
	if after >= tripAge && t.n > 1 {
		t.latest[0] = slices.Min(t.latest[:t.n])
		t.n, t.next = 1, 1
	}
	t.latest[t.next] = took
	t.next = (t.next + 1) % len(t.latest)
	t.n = min(t.n+1, len(t.latest))
	var longest, second time.Duration
	for _, d := range t.latest[:t.n] {
		switch {
		case d > longest:
			longest, second = d, longest
		case d > second:
			second = d
		}
	}
	if t.n == 1 {
		second = longest
	}
	return min(second, queue.Horizon) // the engine grants no further ahead
}
