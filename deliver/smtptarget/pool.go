package smtptarget

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
)

const (
	// idleTimeout is how long an idle connection is kept. Some servers close them after minutes, some after seconds.
	idleTimeout = 30 * time.Second
	// freshFor is how long after its last use a connection is taken to be alive unless it was seen to end. After that
	// the server is asked first, because a device in between may have forgotten the connection.
	freshFor = 10 * time.Second
	// failureAge is how long a failed preparation counts against its server.
	failureAge = 30 * time.Second

	minSpare = 30 * time.Second
	maxSpare = 10 * time.Minute
)

var (
	errUnready = fmt.Errorf("%w: there was no connection in time", drain.ErrLate)
	errClosed  = errors.New("the router is closed")
)

// pool has the connections of one login. Goroutines prepare them, and go on even if the job that asked is late by then,
// so that its next attempt, or the next job, finds a connection ready.
type pool struct {
	login   login
	hider   *secrets.Hider
	dial    dialer
	trust   *tls.Config
	ctx     context.Context // ends with the sender
	running *sync.WaitGroup // of the sender

	mu        sync.Mutex
	max       int
	open      int // connections, idle, in use or being prepared
	preparing int
	idle      []*conn // the last used last
	waiting   []chan prepared
	failed    error // why the last preparation failed; nil if it succeeded
	failedAt  time.Time

	spared time.Time // until when the server is left alone; see spare
	delay  time.Duration
}

type prepared struct {
	conn *conn
	err  error
}

// get returns a connection before the given instant, or an error.
func (p *pool) get(ctx context.Context, closes time.Time, most int) (*conn, error) {
	p.mu.Lock()
	p.max = most
	for len(p.idle) > 0 {
		c := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		c.idle.Stop()
		if !c.alive() {
			p.drop(c)
			continue
		}
		if time.Since(c.used) < freshFor {
			p.mu.Unlock()
			return c, nil
		}
		p.prepare(c)
		break
	}
	ready := make(chan prepared, 1)
	p.waiting = append(p.waiting, ready)
	p.more()
	p.mu.Unlock()

	timer := time.NewTimer(time.Until(closes))
	defer timer.Stop()
	var err error
	select {
	case r := <-ready:
		return r.conn, r.err
	case <-timer.C:
		err = errUnready
	case <-ctx.Done():
		err = fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, ready)
	if i < 0 { // a connection or an error came at the last moment
		r := <-ready
		if r.err != nil {
			return nil, r.err
		}
		p.hand(r.conn)
		return nil, err
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	if errors.Is(err, errUnready) && p.failed != nil && p.open == p.preparing && time.Since(p.failedAt) < failureAge {
		return nil, p.failed // jobs must not be granted and given back forever
	}
	return nil, err
}

// put returns a connection to the pool.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.used = time.Now()
	if c.dirty {
		p.prepare(c)
		return
	}
	p.hand(c)
}

// lose removes a connection that has ended or must end.
func (p *pool) lose(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(c)
	p.more()
}

// For the following methods, up to leave, p.mu is held.

// more prepares connections for all waiters, as far as the maximum permits.
func (p *pool) more() {
	for p.preparing < len(p.waiting) && p.open < p.max {
		p.open++
		p.prepare(nil)
	}
}

// prepare resets a used connection, and replaces it by a new one if that fails or c is nil. It does not wait.
func (p *pool) prepare(c *conn) {
	p.preparing++
	p.running.Go(func() {
		var err error
		if c != nil && !c.reset(p.ctx) {
			_ = c.wire.Close()
			c = nil
		}
		if c == nil {
			c, err = p.login.connect(p.ctx, p.dial, p.trust)
		}
		if err != nil {
			var u *unprepared
			if errors.As(err, &u) {
				err = u.mark(p)
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.preparing--
		p.failed, p.failedAt = err, time.Now()
		if err == nil {
			p.hand(c)
			return
		}
		p.open--
		if len(p.waiting) > 0 {
			p.waiting[0] <- prepared{err: err}
			p.waiting = p.waiting[1:]
		}
		p.more()
	})
}

// hand gives a connection to the first waiter, or keeps it.
func (p *pool) hand(c *conn) {
	switch {
	case p.ctx.Err() != nil || p.open > p.max:
		p.open--
		p.leave(c)
	case len(p.waiting) > 0:
		p.waiting[0] <- prepared{conn: c}
		p.waiting = p.waiting[1:]
	default:
		p.idle = append(p.idle, c)
		c.idle = time.AfterFunc(idleTimeout, func() { p.expire(c) })
	}
}

func (p *pool) drop(c *conn) {
	p.open--
	_ = c.wire.Close()
}

func (p *pool) leave(c *conn) { p.running.Go(c.quit) }

// The methods above need p.mu; the following ones lock it.

func (p *pool) expire(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.idle, c); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
		p.open--
		if p.ctx.Err() != nil { // the sender no longer waits for goroutines
			_ = c.wire.Close()
			return
		}
		p.leave(c)
	}
}

// close closes idle connections.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		c.idle.Stop()
		p.open--
		p.leave(c)
	}
	p.idle = nil
}

// unused reports whether the pool can be dropped without loss.
func (p *pool) unused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open == 0 && len(p.waiting) == 0
}

// spare returns until when the server is left alone after an answer: as it asked, or else for longer each time until it
// takes a message.
func (p *pool) spare(text string) time.Time {
	now := time.Now()
	if d := wait(text); d > 0 {
		return now.Add(d)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.After(p.spared) { // otherwise other connections got the same answer a moment ago
		p.delay = min(max(2*p.delay, minSpare), maxSpare)
		p.spared = now.Add(p.delay)
	}
	return p.spared
}

func (p *pool) wentWell() {
	p.mu.Lock()
	p.delay, p.spared = 0, time.Time{}
	p.mu.Unlock()
}
