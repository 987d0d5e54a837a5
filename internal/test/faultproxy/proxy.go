// Package faultproxy stands between a client and Redis and makes the network misbehave where a test wants it to:
// it swallows the reply to the very next run of a script, delays others, cuts connections, refuses new ones.
//
// It reads enough of the protocol to know which reply answers which command, which is what a proxy of bytes cannot
// do and what a test of "the reply was lost" is about. It passes everything on unchanged. It does not speak TLS, and
// does not know commands that change how many replies there are, other than subscriptions: CLIENT REPLY, MONITOR
// and PSYNC must not go through it.
package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
)

// Proxy listens on loopback for each of its targets. All targets share its faults, so that with a Cluster a test
// need not know which node a command goes to. Its methods may be called from many goroutines.
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

// Start listens for each of targets, which are addresses of Redis servers. The caller ends it with Close.
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

// Addr is where to reach the only target, or the first.
func (p *Proxy) Addr() string { return p.listeners[p.first].Addr().String() }

// Dial connects to a target through the proxy, and to any other address directly. It is made to be the Dialer of a
// go-redis client, so that a Cluster's client goes through the proxy though the nodes give it their own addresses.
func (p *Proxy) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if l, ok := p.listeners[addr]; ok {
		addr = l.Addr().String()
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// Cut closes the connections to targets, or all when none is named, and returns how many there were.
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

// Refuse resets new connections to targets, or all when none is named, as soon as they are made; those there are
// stay. The port stays open, so that no other program takes it.
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

// Close ends the proxy and its connections, and waits for its goroutines. Its error is the first thing that it met
// and did not understand: then its replies may have been matched to the wrong commands.
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

// serve passes a connection on to target until either side ends it.
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
