package ops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"
)

// MaxSocket is the maximum length of a Unix socket's path, in bytes, that all systems accept.
const MaxSocket = 103

// bindSocket opens the Unix socket, or returns nil if Socket is empty. Every user with access to its directory may
// connect; the operating system identifies them.
func (l Listen) bindSocket(between func(net.Listener) net.Listener) (_ net.Listener, err error) {
	if l.Socket == "" {
		return nil, nil
	}
	if len(l.Socket) > MaxSocket {
		return nil, fmt.Errorf("socket %s: the path has %d bytes, the limit is %d", l.Socket, len(l.Socket), MaxSocket)
	}
	if err := removeStale(l.Socket); err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", l.Socket)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", l.Socket, err)
	}
	if err := os.Chmod(l.Socket, 0o666); err != nil {
		return nil, fmt.Errorf("socket: %w", errors.Join(err, ln.Close()))
	}
	return between(ln), nil
}

// removeStale removes a socket that a crashed process left behind.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket: %w", err)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("socket %s: the path exists and is not a socket; remove it", path)
	}
	if c, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "unix", path); err == nil {
		return errors.Join(fmt.Errorf("socket %s: another process serves it", path), c.Close())
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	return nil
}
