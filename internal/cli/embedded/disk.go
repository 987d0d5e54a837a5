package embedded

import (
	"math/bits"

	"github.com/penstock/penstock/deferred"
)

// overflowBytes returns the capacity of an overflow on a disk with so many free bytes: between a quarter and half of
// them, within the limits of package deferred. So the overflow is full long before the disk is, because nats-server
// does not recover from a full disk by itself. The capacity is a power of two, so that the next start usually chooses
// the same.
func overflowBytes(free uint64) int64 {
	if free >= 2*deferred.DefaultMaxBytes {
		return deferred.DefaultMaxBytes
	}
	return max(deferred.MinMaxBytes, int64(1)<<max(0, bits.Len64(free)-2))
}
