// Package drain is the outflow: a loop that reserves departures from an engine, hands each job to a handler at its
// departure, and settles the result. Any Go function can be a handler, as the package example shows. Package deliver
// has handlers that send jobs to receivers.
//
// A job starts only within the window of its departure. The clocks of engine and drainer need not agree: each answer
// states the engine's time at some instant between request and answer, and the drainer measures both on its monotonic
// clock. A job starts no earlier than when its departure has certainly come, and no later than its slack allows, or is
// given back. A missed slot is lost, never saved up, so a pause of the process does not end in a burst.
//
// What a handler returned is settled, and settled again until the engine has answered. A handler whose lease is lost
// is canceled by its context. A drainer that stops gives back at once every job that has not started.
//
// The package knows no engine and no transport. It retries jobs only by the backoff in their queue's spec, and counts
// nothing itself: an [Observer] does.
//
// A handler's error decides what happens to its job. A plain error has the job retried; [Throttled] and its neighbors
// say more, for example that the receiver asks to be left alone for a while.
package drain
