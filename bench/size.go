package main

import "time"

// scale is the part of each figure's full size that is measured: of its jobs, queues, lanes, lines and seconds.
var scale = 1.0

// batch is how many jobs the minimal scripts carry a call at most: sized returns whole batches.
const batch = 500

// sized returns how many of n things are measured: at least a batch, or all if they are fewer.
func sized(n int) int {
	if n < batch {
		return n
	}
	return max(batch, int(float64(n)*scale)/batch*batch)
}

// steps returns how many of n slow steps are measured: at least two.
func steps(n int) int { return max(min(n, 2), int(float64(n)*scale)) }

// lasting returns how long of d is measured: at least 250 ms.
func lasting(d time.Duration) time.Duration {
	return max(min(d, 250*time.Millisecond), time.Duration(float64(d)*scale))
}
