package boltq

import (
	"crypto/rand"
	"encoding/binary"
	"strconv"
	"strings"

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
	b := make([]byte, 0, 33)
	b = strconv.AppendUint(b, f.epoch, 16)
	b = strconv.AppendUint(append(b, '.'), f.number, 16)
	return queue.Fence(b)
}

// parseFence reads what text wrote; anything else is the zero fence, which no
// lease has.
func parseFence(s queue.Fence) fence {
	epoch, number, _ := strings.Cut(string(s), ".")
	var f fence
	var err1, err2 error
	f.epoch, err1 = strconv.ParseUint(epoch, 16, 64)
	f.number, err2 = strconv.ParseUint(number, 16, 64)
	if err1 != nil || err2 != nil || f.text() != s {
		return fence{}
	}
	return f
}
