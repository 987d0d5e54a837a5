package ops

import (
	"net"
	"sync"
)

// limited is a listener that keeps no more than so many connections open. What
// comes on top waits in the kernel's backlog.
type limited struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once
}

func limit(ln net.Listener, n int) net.Listener {
	return &limited{Listener: ln, places: make(chan struct{}, n), closed: make(chan struct{})}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &place{Conn: c, free: sync.OnceFunc(func() { <-l.places })}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// place is a connection that frees its place when it is closed.
type place struct {
	net.Conn
	free func()
}

func (p *place) Close() error {
	err := p.Conn.Close()
	p.free()
	return err
}
