package redisq

import (
	"encoding/binary"
	"strconv"

	"github.com/penstock/penstock/queue"
)

// A fence is the epoch, 8 hexadecimal digits of the run_id of the server that
// granted it, and a number that grows: "3f2a9c1b-17". The scripts know it as 14
// bytes.

const epochBytes = 8

func newFence(epoch string, number int64) queue.Fence {
	b := make([]byte, 0, epochBytes+1+16)
	b = append(append(b, epoch...), '-')
	return queue.Fence(strconv.AppendInt(b, number, 10))
}

// fenceArg is the 14 bytes.
type fenceArg [epochBytes + 6]byte

// MarshalBinary implements encoding.BinaryMarshaler.
func (f *fenceArg) MarshalBinary() ([]byte, error) { return f[:], nil }

// packFence returns zeros, which are nobody's fence, for what was never one.
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
