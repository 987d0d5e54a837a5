package sink

import (
	"net"
	"sync"
)

// door limits the number of connections, and refuses a share of them.
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
			reset(c)
			continue
		}
		select {
		case d.places <- struct{}{}:
			return &visitor{Conn: c, leave: sync.OnceFunc(func() { <-d.places })}, nil
		default: // waiting here would stop Accept
			d.sink.count.refused()
			reset(c)
		}
	}
}

// reset resets a connection, as if nobody listened.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// visitor is an accepted connection.
type visitor struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (v *visitor) Close() error {
	defer v.leave()
	return v.Conn.Close()
}
