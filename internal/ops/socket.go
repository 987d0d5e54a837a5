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

// MaxSocket is the longest path of a Unix socket, in bytes, that every system takes.
const MaxSocket = 103

// bindSocket opens the Unix socket; nil if there is to be none. Anybody may connect who reaches its directory: who it
// is that does, the system says.
func (l Listen) bindSocket(between func(net.Listener) net.Listener) (_ net.Listener, err error) {
	if l.Socket == "" {
		return nil, nil
	}
	if len(l.Socket) > MaxSocket {
		return nil, fmt.Errorf("socket %s: its path has %d bytes, the limit is %d", l.Socket, len(l.Socket), MaxSocket)
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

// removeStale removes a socket that a process left behind which did not end in order.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket: %w", err)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("socket %s: there is a file of another kind; remove it", path)
	}
	if c, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "unix", path); err == nil {
		return errors.Join(fmt.Errorf("socket %s: another process serves it", path), c.Close())
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	return nil
}
