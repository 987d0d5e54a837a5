// Package drain is the outflow: the loop that reserves departures from an engine, hands each job to a handler at
// its departure, and settles what became of it. Any Go function will do as a handler (see the example of the
// package); package deliver has handlers that reach the outside.
//
// It promises that a job starts only within the window that its departure was granted for. That is judged on the
// monotonic clock, and no clocks are compared: with s the instant before the engine was asked and r the one after
// its answer, a job that departs "in d" starts in [r+d, s+d+slack] or is given back. A missed slot is lost, never
// saved up, so no pause of the process ends in a burst.
//
// It promises that what a handler said is settled, again and again until the engine has answered; that a handler
// whose lease is lost is told to stop, by its context; and that a drainer told to stop gives back at once what has
// not started.
//
// It refuses to decide how jobs are tried again beyond the backoff of their queue's spec, to know any engine or
// transport, and to count anything itself: an [Observer] is told what happens.
//
// A handler's error says what happens to the job: a plain one has it tried again, and [Throttled] and its
// neighbours say more, such as that the receiver asks to be spared.
package drain
