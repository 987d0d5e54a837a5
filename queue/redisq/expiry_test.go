package redisq_test

import (
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// After a restart a job costlier than any before may have to wait longer. If it
// would depart after it has expired, it does not.
func TestExpiryUnderTheHold(t *testing.T) {
	for _, c := range []struct {
		name    string
		expires time.Duration // after it is looked at
		state   queue.State
	}{
		{"in time", 45 * time.Millisecond, queue.Leased},
		{"too late because of its cost", 25 * time.Millisecond, queue.Expired},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, at, _ := restarted(t)
			v.put("email", leaky.PerSecond(1000), nil)
			v.reserve("email") // puts the hold on
			*at += 10_000_000
			v.drain("email", 1)
			j := job("email", 3)
			j.Cost, j.ExpiresAt = 30, at.Time().Add(c.expires)
			v.append(j)
			v.reserve("email")
			if i, err := v.e.Job(v.ctx, "email", j.ID); err != nil || i.State != c.state {
				t.Errorf("%v, %v; want %v", i.State, err, c.state)
			}
		})
	}
}
