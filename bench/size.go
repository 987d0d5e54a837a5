package main

import "time"

// scale is the fraction of each figure's full size that is measured: of its jobs, queues, lanes, lines and seconds.
var scale = 1.0

// batch is the maximum number of jobs a call for the minimal scripts; sized returns whole batches.
const batch = 500

// sized returns how many of n objects to measure: at least a batch, or all if there are fewer.
func sized(n int) int {
	if n < batch {
		return n
	}
	return max(batch, int(float64(n)*scale)/batch*batch)
}

// steps returns how many of n slow steps to measure: at least two.
func steps(n int) int { return max(min(n, 2), int(float64(n)*scale)) }

// lasting returns how much of d to measure: at least 250 ms.
func lasting(d time.Duration) time.Duration {
	return max(min(d, 250*time.Millisecond), time.Duration(float64(d)*scale))
}
