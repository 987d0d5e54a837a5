package ops

import (
	"net"
	"sync"
)

// gate is a listener with a maximum number of open connections. Further connections wait in the kernel's backlog. It
// charges each connection to its client and refuses the connection if the budget does.
type gate struct {
	net.Listener
	memory *Budget
	cost   int64
	client func(remote string) string // name of the account to charge
	refuse func(net.Conn, error)
	own    func(status int, said string) []byte // see ServerOptions.Own
	places chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (g *gate) Accept() (net.Conn, error) {
	select {
	case g.places <- struct{}{}:
	case <-g.closed:
		return nil, net.ErrClosed
	}
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			<-g.places
			return nil, err
		}
		account := g.memory.Open(g.client(c.RemoteAddr().String()))
		if err := account.Take(g.cost); err != nil {
			account.Close()
			g.refuse(c, err)
			continue
		}
		held := &conn{Conn: c, account: account, refuse: g.refuse, own: g.own}
		held.held.Store(g.cost)
		held.heading.Store(true)
		held.end = sync.OnceFunc(func() {
			held.free()
			<-g.places
		})
		return held, nil
	}
}

func (g *gate) Close() error {
	g.once.Do(func() { close(g.closed) })
	return g.Listener.Close()
}
