//go:build linux || darwin || freebsd

package auth

import "net"

// KnowsPeers reports whether the system identifies the user at the other end of a Unix socket.
const KnowsPeers = true

// peerOf returns the user at the other end of a Unix socket.
func peerOf(c *net.UnixConn) (uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	if control := raw.Control(func(fd uintptr) { uid, err = peerOfSocket(int(fd)) }); control != nil {
		return 0, control
	}
	return uid, err
}
