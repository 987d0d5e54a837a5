package boltq

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/penstock/penstock/queue"
)

// fence tells one lease of a job from another: the epoch is drawn anew at every
// Open, so that no fence of an earlier process, or of a restored copy of the
// file, stands.
type fence struct {
	epoch, number uint64
}

func newEpoch() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return binary.BigEndian.Uint64(b[:])
}

func (f fence) text() queue.Fence {
	return queue.Fence(fmt.Sprintf("%016x.%x", f.epoch, f.number))
}

// parseFence reads what text wrote; anything else is the zero fence, which no
// lease has.
func parseFence(s queue.Fence) fence {
	var f fence
	if len(s) > 33 {
		return fence{}
	}
	if n, err := fmt.Sscanf(string(s), "%16x.%x", &f.epoch, &f.number); n != 2 || err != nil || f.text() != s {
		return fence{}
	}
	return f
}
