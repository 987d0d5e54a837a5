package sink

import (
	"net"
	"sync"
)

// door lets connections in: so many at once, and not those that are to be refused.
type door struct {
	net.Listener
	sink   *Sink
	places chan struct{}
}

func (s *Sink) door(l net.Listener) *door {
	return &door{Listener: l, sink: s, places: make(chan struct{}, maxConnections)}
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if d.sink.o.random() < d.sink.o.Refuse {
			d.sink.count.refused()
			end(c)
			continue
		}
		select {
		case d.places <- struct{}{}:
			return &visitor{Conn: c, leave: sync.OnceFunc(func() { <-d.places })}, nil
		default: // to wait here would keep those inside from being counted
			d.sink.count.refused()
			end(c)
		}
	}
}

// end ends a connection at once, as a receiver does that does not listen.
func end(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// visitor is a connection that has a place.
type visitor struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (v *visitor) Close() error {
	defer v.leave()
	return v.Conn.Close()
}
