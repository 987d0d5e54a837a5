//go:build unix

package httptarget

import (
	"errors"
	"syscall"
)

// canPeek is whether a socket can be looked at.
const canPeek = true

// peekAt looks at what a socket has to read.
func peekAt(fd uintptr) peeked {
	var b [1]byte
	for {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return nothing
		case err != nil || n == 0:
			return ended
		}
		return data
	}
}
