// Package leaky is the arithmetic of leaky buckets: how far apart departures
// must be, when the next one may happen, and what a change of rate does to a
// bucket that is already running.
//
// It promises exactness: a rate is a fraction of integers, instants are integer
// microseconds, and what does not fit a microsecond is carried as a remainder,
// so that 14/s neither drifts nor gains over years.
//
// It refuses everything else: there is no clock, no I/O and no goroutine here.
// Time is an argument. The engines in queue/ bring the clock and the storage;
// the Redis engine repeats this arithmetic in Lua and is held to it by test.
//
// The algorithm is GCRA in its virtual scheduling form (ITU-T I.371, annex A;
// ATM Forum UNI 3.1, 3.6.2.4), used as a queue: a job that would not conform
// now is given the instant at which it will.
//
// Beside the buckets, which let work out, stand limiters, which let it in or
// turn it away: see Limiter.
package leaky
