// Package closedloop simulates a queue that sends to a receiver with a limit, in virtual time. Only the clock, the
// network and the receiver are simulated, so a run gives the same result each time.
//
// Its results are figures: how much of the limit was used, how many requests were refused, and the rate over time.
// Callers judge them.
package closedloop
