package cli

import (
	"math/bits"

	"github.com/penstock/penstock/deferred"
)

// overflowBytes is how much the overflow may hold on a disk with so much free: between a
// quarter and half of that, so that it is told to be full long before the disk is, which
// nats-server does not recover from by itself. It is a power of two, so that the next
// start mostly comes to the same.
func overflowBytes(free uint64) int64 {
	if free >= 2*deferred.DefaultMaxBytes {
		return deferred.DefaultMaxBytes
	}
	return max(deferred.MinMaxBytes, int64(1)<<max(0, bits.Len64(free)-2))
}
