// Package closedloop is a queue that sends to a receiver with a limit, in virtual time: the whole of the
// loop is real but the clock, the wire and the receiver, so that a run is the same each time.
//
// It promises figures: how much of the limit was sent, how much of that was refused, and the rate over
// time. It refuses to know how they are judged.
package closedloop
