//go:build linux || darwin || freebsd

package auth

import "net"

// KnowsPeers is whether the system says who connects to a Unix socket.
const KnowsPeers = true

// peerOf returns the user who connected, as the kernel knows him.
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
