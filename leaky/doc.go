// Package leaky is the arithmetic of leaky buckets: how far apart departures must be, when the next one may
// happen, what a change of rate does to a bucket that is already running, and whether something may come in.
//
// There are two kinds of buckets here:
//
//   - A [Pacer] lets work out. It is asked for the next departure of a [Bucket], and answers with an instant. It
//     is GCRA in its virtual scheduling form (ITU-T I.371, annex A; ATM Forum UNI 3.1, 3.6.2.4), used as a queue:
//     a job that would not conform now is given the instant at which it will.
//   - A [Limiter] lets work in, or turns it away and says when to come back. There is one for each [Algorithm],
//     which names its worst burst, its memory and its source; the example of Limiter shows how one is asked.
//
// It promises exactness. A rate is a fraction of integers, instants are integer microseconds, and what does not
// fit a microsecond is carried as a remainder, so that 14/s neither drifts nor gains over years. All products of
// integers stay below 2^53: the Redis engine repeats this arithmetic in Lua, where all numbers are doubles, and is
// held to it by test.
//
// It refuses everything else. There is no clock, no I/O and no goroutine: time is an argument. The engines in
// queue/ bring the clock and the storage.
//
// Numbers that cannot be used are errors that wrap [ErrRate] or [ErrLimit]; a cost that can never pass wraps
// [ErrNever].
package leaky
