package leaky_test

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
)

// Five calls a second, by the caller's own clock.
func ExampleLimiter() {
	var limiter leaky.Limiter = leaky.Meter{Rate: leaky.PerSecond(5), Burst: 2}
	if err := limiter.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	tally := limiter.Fresh() // one for each key
	now := leaky.Instant(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	for range 3 {
		d := tally.Take(now, leaky.Ask{})
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter, d.ResetAfter)
	}
	fmt.Println(leaky.CheckAsk(limiter, leaky.Ask{Cost: 3}))
	// Output:
	// true 1 0s 200ms
	// true 0 0s 400ms
	// false 0 200ms 400ms
	// cost 3 can never pass: the limit is 2
}
