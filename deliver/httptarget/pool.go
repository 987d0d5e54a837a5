package httptarget

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	idleTimeout    = 90 * time.Second
	leastIdleConns = 1024
	maxHeaderBytes = 64 << 10 // of an answer
	maxPools       = 256      // for targets with their own TLS, proxy or maximum of connections
)

// pool has the connections of targets with the same TLS, proxy and maximum of connections.
type pool struct {
	dialer   *tlsDialer
	most     int           // connections to one receiver
	mostIdle int           // connections that are kept
	idleFor  time.Duration // how long an unused connection is kept
	used     atomic.Int64  // when it was last used, in ns since 1970

	mu        sync.Mutex
	receivers map[place]*receiver
	idle      int // number of idle connections
	closed    bool
	reaper    *time.Timer // closes connections that were idle for long; nil if there are none
}

// receiver has the connections to a place.
type receiver struct {
	conns   int     // number of connections, also those being made
	dials   int     // number of connections being made
	idle    []*conn // the one used last is the last
	waiting []*want // in order of arrival
}

// want is a delivery that waits for a connection.
type want struct{ ready chan offer }

// offer is a connection, or the error of a dial.
type offer struct {
	conn *conn
	err  error
}

// get returns a connection that carries no request. It waits at most until an instant. A dial that takes longer goes on
// for the next delivery. Errors: errUnready, ctx's cause, the dial's.
func (p *pool) get(ctx context.Context, to place, until time.Time) (*conn, error) {
	for {
		p.mu.Lock()
		r := p.receivers[to]
		if r == nil {
			r = &receiver{}
			p.receivers[to] = r
		}
		n := len(r.idle)
		if n == 0 {
			w := &want{make(chan offer, 1)}
			r.waiting = append(r.waiting, w)
			p.dialMore(to, r)
			p.mu.Unlock()
			return p.wait(ctx, to, w, until)
		}
		c := r.idle[n-1]
		r.idle[n-1] = nil
		r.idle = r.idle[:n-1]
		p.idle--
		p.mu.Unlock()
		if c.alive() {
			return c, nil
		}
		p.drop(c)
	}
}

// wait waits for a connection.
func (p *pool) wait(ctx context.Context, to place, w *want, until time.Time) (*conn, error) {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	var err error
	select {
	case o := <-w.ready:
		return o.conn, o.err
	case <-late.C:
		err = errUnready
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.mu.Lock()
	if r := p.receivers[to]; r != nil {
		if i := slices.Index(r.waiting, w); i >= 0 {
			r.waiting = slices.Delete(r.waiting, i, i+1)
			p.forget(to, r)
			p.mu.Unlock()
			return nil, err
		}
	}
	p.mu.Unlock()
	if o := <-w.ready; o.conn != nil { // it was offered just now
		p.put(o.conn)
	}
	return nil, err
}

// dialMore dials for each waiting delivery, up to the maximum. If the delivery gets another connection first, the new
// one is kept. mu is held.
func (p *pool) dialMore(to place, r *receiver) {
	for r.dials < len(r.waiting) && r.conns < p.most {
		r.conns++
		r.dials++
		go p.dial(to)
	}
}

// warm dials until n connections are ready or being made that no delivery waits for.
func (p *pool) warm(to place, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.receivers[to]
	if r == nil {
		r = &receiver{}
		p.receivers[to] = r
	}
	for len(r.idle)+r.dials-len(r.waiting) < n && r.conns < p.most && !p.closed {
		r.conns++
		r.dials++
		go p.dial(to)
	}
	p.forget(to, r)
}

// dial makes a connection. A failure goes to the first who waits.
func (p *pool) dial(to place) {
	made, err := p.dialer.dial(to)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.receivers[to]
	r.dials--
	if err == nil {
		p.keep(newConn(made, to))
		return
	}
	r.conns--
	r.offer(offer{err: err})
	p.dialMore(to, r)
	p.forget(to, r)
}

// offer gives the first who waits a connection or an error, and reports whether anybody waits. The pool's mu is held.
func (r *receiver) offer(o offer) bool {
	if len(r.waiting) == 0 {
		return false
	}
	r.waiting[0].ready <- o
	r.waiting = slices.Delete(r.waiting, 0, 1)
	return true
}

// put takes a connection back that carries no request any more.
func (p *pool) put(c *conn) {
	_ = c.SetDeadline(time.Time{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep(c)
}

// keep gives a connection to the first who waits, also after close, or keeps it. mu is held.
func (p *pool) keep(c *conn) {
	r := p.receivers[c.to]
	if !c.fresh && !canPeek { // it may have ended, and nobody would know
		p.discard(c, r)
		return
	}
	if r.offer(offer{conn: c}) {
		return
	}
	if p.closed {
		p.discard(c, r)
		return
	}
	c.idle = time.Now()
	r.idle = append(r.idle, c)
	p.idle++
	if p.idle > p.mostIdle {
		oldest := r.idle[0]
		r.idle = slices.Delete(r.idle, 0, 1)
		p.idle--
		p.discard(oldest, r)
	}
	if p.reaper == nil {
		p.reaper = time.AfterFunc(p.idleFor, p.reap)
	}
}

// drop closes a connection that get returned.
func (p *pool) drop(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discard(c, p.receivers[c.to])
}

// discard closes a connection that is not idle, and dials for a delivery that waits. mu is held.
func (p *pool) discard(c *conn, r *receiver) {
	_ = c.Close()
	r.conns--
	p.dialMore(c.to, r)
	p.forget(c.to, r)
}

// forget forgets a receiver without connections. mu is held.
func (p *pool) forget(to place, r *receiver) {
	if r.conns == 0 && len(r.waiting) == 0 {
		delete(p.receivers, to)
	}
}

// reap closes connections that were idle for long.
func (p *pool) reap() {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaper = nil
	p.closeIdle(now.Add(-p.idleFor))
	next := p.idleFor
	for _, r := range p.receivers {
		if len(r.idle) > 0 {
			next = min(next, r.idle[0].idle.Add(p.idleFor).Sub(now))
		}
	}
	if p.idle > 0 {
		p.reaper = time.AfterFunc(next, p.reap)
	}
}

// closeIdle closes connections that are idle since an instant or longer. mu is held.
func (p *pool) closeIdle(since time.Time) {
	for to, r := range p.receivers {
		n := 0
		for n < len(r.idle) && !r.idle[n].idle.After(since) {
			_ = r.idle[n].Close()
			n++
		}
		r.idle = slices.Delete(r.idle, 0, n)
		r.conns -= n
		p.idle -= n
		p.forget(to, r)
	}
}

// close closes idle connections, and has others closed after their requests.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.reaper != nil {
		p.reaper.Stop()
		p.reaper = nil
	}
	p.closeIdle(time.Now())
}
