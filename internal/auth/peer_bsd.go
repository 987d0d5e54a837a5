//go:build darwin || freebsd

package auth

import (
	"net"

	"golang.org/x/sys/unix"
)

// KnowsPeers is whether the system says who connects to a Unix socket.
const KnowsPeers = true

// peerOf returns the user who connected, as the kernel knows him.
func peerOf(c *net.UnixConn) (uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Xucred
	control := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	})
	switch {
	case control != nil:
		return 0, control
	case err != nil:
		return 0, err
	}
	return peer.Uid, nil
}
