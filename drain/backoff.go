package drain

import (
	"math/rand/v2"
	"time"
)

// jittered spreads d over [d/2, d], for the repeating of calls to the engine.
func jittered(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}
