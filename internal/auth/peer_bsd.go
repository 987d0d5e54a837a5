//go:build darwin || freebsd

package auth

import "golang.org/x/sys/unix"

func peerOfSocket(fd int) (uid uint32, err error) {
	peer, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return peer.Uid, nil
}
