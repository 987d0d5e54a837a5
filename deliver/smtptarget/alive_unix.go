//go:build unix

package smtptarget

import (
	"errors"
	"net"
	"syscall"
)

// silent reports whether a connection is open and nothing has arrived on it: an unasked server only sends its goodbye.
// It does not wait, and consumes nothing.
func silent(c net.Conn) bool {
	has, ok := c.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := has.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		err := error(syscall.EINTR)
		for errors.Is(err, syscall.EINTR) {
			_, _, err = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		}
		quiet = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && quiet
}
