// Package drain is the outflow: the loop that reserves departures from an
// engine, hands each job to a handler at its departure, and settles what became
// of it. Any Go handler will do; package deliver has those that reach outside.
//
// It promises that a job starts only within the window that its departure was
// granted for, judged on the monotonic clock without comparing clocks: with s the
// instant before the engine was asked and r the one after its answer, a job that
// departs "in d" starts in [r+d, s+d+slack] or is given back. A missed slot is
// lost, never saved up, so no pause of the process ends in a burst. It promises
// that what a handler said is settled, again and again until the engine has
// answered; that a handler whose lease is lost is told to stop; and that a drainer
// told to stop gives back at once what has not started.
//
// It refuses to decide how jobs are tried again beyond the backoff of their queue's
// spec, to know any engine or transport, and to count anything itself: an Observer
// is told what happens.
package drain
