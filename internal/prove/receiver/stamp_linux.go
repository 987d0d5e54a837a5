package receiver

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// askForStamps prepares a listening socket. Accepted connections inherit the option, so that segments that arrive
// before the accept have stamps too.
func askForStamps(_, _ string, c syscall.RawConn) error {
	// If the kernel refuses, arrivals are stamped by this process, and counted as such.
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
}

// receiver returns a Read with stamps, or nil if the connection has no descriptor.
func receiver(c net.Conn) func(p []byte) (int, int64, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return func(p []byte) (n int, stamp int64, err error) {
		if len(p) == 0 {
			return 0, 0, nil
		}
		var oob [128]byte
		var oobn int
		var failed error
		err = raw.Read(func(fd uintptr) bool {
			for {
				n, oobn, _, _, failed = unix.Recvmsg(int(fd), p, oob[:], 0)
				if failed != unix.EINTR {
					return failed != unix.EAGAIN
				}
			}
		})
		switch {
		case err != nil:
			return 0, 0, err
		case failed != nil:
			return 0, 0, os.NewSyscallError("recvmsg", failed)
		case n == 0:
			return 0, 0, io.EOF
		}
		return n, stampIn(oob[:oobn]), nil
	}
}

// stampIn returns the stamp in control messages, or 0.
func stampIn(oob []byte) int64 {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_TIMESTAMPNS {
			continue
		}
		var at unix.Timespec
		if _, err := binary.Decode(m.Data, binary.NativeEndian, &at); err == nil {
			return at.Nano()
		}
	}
	return 0
}
