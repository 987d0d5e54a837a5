// Package leaky is the arithmetic of leaky buckets. It computes how far apart departures must be, when the next one
// may happen, how a change of rate affects a running bucket, and whether something may come in.
//
// There are two kinds of buckets:
//
//   - A [Pacer] lets work out. It returns the instant of the next departure of a [Bucket]. It is GCRA in its virtual
//     scheduling form (ITU-T I.371, annex A; ATM Forum UNI 3.1, 3.6.2.4), used as a queue: a job that would not conform
//     now gets the instant at which it will.
//   - A [Limiter] lets work in, or refuses it and says when to come back. There is one per [Algorithm]; each documents
//     its worst burst, memory and source. The example of Limiter shows how to use one.
//
// It promises exactness. A rate is a fraction of integers, instants are integer microseconds, and fractions of a
// microsecond are carried as a remainder, so that 14/s neither drifts nor gains over years. All products of integers
// stay below 2^53: the Redis engine repeats this arithmetic in Lua, where all numbers are doubles. Tests compare the
// two.
//
// It does nothing else: it has no clock, I/O or goroutine. Time is an argument. The engines in queue/ add the clock and
// the storage.
//
// Errors about unusable numbers wrap [ErrRate] or [ErrLimit]. The error of a cost that can never pass wraps
// [ErrNever].
package leaky
