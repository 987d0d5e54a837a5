package redisq

import (
	"encoding/binary"
	"strconv"

	"github.com/penstock/penstock/queue"
)

// A fence is an epoch and a number that grows, as in "3f2a9c1b-17". The epoch is 8 hexadecimal digits of the run_id of
// the server that granted it. Scripts take a fence as 14 bytes.

const epochBytes = 8

func newFence(epoch string, number int64) queue.Fence {
	b := make([]byte, 0, epochBytes+1+16)
	b = append(append(b, epoch...), '-')
	return queue.Fence(strconv.AppendInt(b, number, 10))
}

// fenceArg is a fence as scripts take it.
type fenceArg [epochBytes + 6]byte

// MarshalBinary implements encoding.BinaryMarshaler.
func (f *fenceArg) MarshalBinary() ([]byte, error) { return f[:], nil }

// packFence returns zeros, which no lease has, for a text that is not a fence.
func packFence(f queue.Fence) fenceArg {
	var b [8 + epochBytes]byte
	if len(f) > epochBytes+1 && f[epochBytes] == '-' {
		if n, err := strconv.ParseUint(string(f[epochBytes+1:]), 10, 48); err == nil {
			binary.BigEndian.PutUint64(b[epochBytes-2:], n)
			copy(b[:], f[:epochBytes])
		}
	}
	return fenceArg(b[:epochBytes+6])
}
