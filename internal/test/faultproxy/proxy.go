// Package faultproxy is a proxy between a client and Redis that simulates network faults where a test wants them: it
// swallows the reply to the next run of a script, delays replies, cuts connections, or refuses new ones.
//
// It understands enough of the protocol to match replies to commands, which tests of lost replies need. It passes
// everything else on unchanged. It does not support TLS, nor commands that change the number of replies, except
// subscriptions: do not send CLIENT REPLY, MONITOR or PSYNC through it.
package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
)

// Proxy listens on loopback for each of its targets. All targets share its faults, so that with a Cluster a test need
// not know the node of a command. It is safe for concurrent use.
type Proxy struct {
	listeners map[string]net.Listener // by target
	first     string
	wait      sync.WaitGroup

	mu      sync.Mutex
	faults  []*Injected
	refused map[string]bool
	conns   map[*conn]struct{}
	closed  bool
	err     error
}

// Start listens for each target, the address of a Redis server. The caller calls Close.
func Start(ctx context.Context, targets ...string) (*Proxy, error) {
	if len(targets) == 0 {
		return nil, errors.New("faultproxy: no target: name the address of at least one Redis")
	}
	p := &Proxy{
		first:     targets[0],
		listeners: make(map[string]net.Listener, len(targets)),
		refused:   make(map[string]bool),
		conns:     make(map[*conn]struct{}),
	}
	for _, target := range targets {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(fmt.Errorf("faultproxy: %w", err), p.Close())
		}
		p.listeners[target] = l
		p.wait.Go(func() { p.accept(l, target) })
	}
	return p, nil
}

// Addr returns the address for the only target, or the first.
func (p *Proxy) Addr() string { return p.listeners[p.first].Addr().String() }

// Dial connects to a target through the proxy, and to other addresses directly. As the Dialer of a go-redis client it
// makes a cluster client use the proxy although the nodes announce their own addresses.
func (p *Proxy) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if l, ok := p.listeners[addr]; ok {
		addr = l.Addr().String()
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// Cut closes the connections to targets, by default all, and returns their number.
func (p *Proxy) Cut(targets ...string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for c := range p.conns {
		if len(targets) == 0 || slices.Contains(targets, c.target) {
			c.close()
			delete(p.conns, c)
			n++
		}
	}
	return n
}

// Refuse resets new connections to targets, by default all. Existing connections remain. The port stays open, so that
// no other program takes it.
func (p *Proxy) Refuse(targets ...string) { p.setRefused(true, targets) }

// Admit ends Refuse.
func (p *Proxy) Admit(targets ...string) { p.setRefused(false, targets) }

func (p *Proxy) setRefused(refused bool, targets []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for target := range p.listeners {
		if len(targets) == 0 || slices.Contains(targets, target) {
			p.refused[target] = refused
		}
	}
}

// Close closes the proxy and its connections, and waits for its goroutines. Its error is the first data that the proxy
// did not understand: after that, replies may have been matched to the wrong commands.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for _, l := range p.listeners {
		_ = l.Close()
	}
	p.Cut()
	p.wait.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *Proxy) accept(l net.Listener, target string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // closed
		}
		p.wait.Go(func() { p.serve(client, target) })
	}
}

// serve passes a connection on to target until either side closes it.
func (p *Proxy) serve(client net.Conn, target string) {
	c := &conn{proxy: p, target: target, client: client, done: make(chan struct{})}
	if !p.enter(c) {
		if tcp, ok := client.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // so that closing resets
		}
		_ = client.Close()
		return
	}
	c.run()
	p.leave(c)
}

func (p *Proxy) enter(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refused[c.target] {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) leave(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// fail keeps the first error for Close.
func (p *Proxy) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = fmt.Errorf("faultproxy: %w", err)
	}
}
