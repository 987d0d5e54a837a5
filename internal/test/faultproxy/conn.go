package faultproxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// A conn is one connection of a client and the one to Redis that belongs to it.
type conn struct {
	proxy  *Proxy
	target string
	client net.Conn

	once sync.Once
	done chan struct{}

	mu         sync.Mutex
	redis      net.Conn
	closed     bool
	pending    []*Injected // what the replies that are still to come meet, in order; nil for nothing
	subscribed bool
}

// A delivery is a reply on its way back to the client.
type delivery struct {
	frame []byte
	held  *Injected // holds it back until due, or until it is removed
	due   time.Time
	last  bool // close the connection in its place
}

// run returns when the connection has ended.
func (c *conn) run() {
	defer c.close()
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", c.target)
	if err != nil {
		return // Redis is down, and the client finds its connection closed
	}
	c.mu.Lock()
	c.redis = server
	c.mu.Unlock()

	replies := make(chan delivery, 1024)
	var wait sync.WaitGroup
	for _, part := range []func(){
		func() { c.note(c.readCommands(server)) },
		func() { c.note(c.readReplies(server, replies)) },
		func() { c.note(c.deliver(replies)) },
	} {
		wait.Go(func() {
			part()
			c.close()
		})
	}
	select {
	case <-c.done: // closed while it was dialling, before there was a redis to close
		_ = server.Close()
	default:
	}
	wait.Wait()
}

// close ends both sides at once. It may be called often.
//
// Faults whose replies will not come any more are free again before the client notices, so that what it sends next
// meets them.
func (c *conn) close() {
	c.once.Do(func() {
		close(c.done)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closed = true
		for _, fault := range c.pending {
			if fault != nil {
				fault.unclaim()
			}
		}
		c.pending = nil
		if c.redis != nil {
			_ = c.redis.Close()
		}
		_ = c.client.Close()
	})
}

// note keeps errors other than those of connections that end.
func (c *conn) note(err error) {
	var network net.Error
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &network) {
		return
	}
	c.proxy.fail(err)
}

// readCommands passes commands on to Redis, and notes what their replies shall meet.
func (c *conn) readCommands(server io.Writer) error {
	r, w := bufio.NewReader(c.client), bufio.NewWriter(server)
	for {
		frame, args, err := readCommand(r)
		if err != nil {
			return errors.Join(err, w.Flush())
		}
		cmd := Command{Target: c.target, Args: args}
		fault := c.proxy.meet(cmd)
		if fault != nil && fault.fault.Do == LoseCommand {
			err := w.Flush()
			fault.hit() // before the client can know
			c.close()
			return err
		}
		c.expect(cmd, fault)
		if _, err := w.Write(frame); err != nil {
			return err
		}
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

// expect notes that a reply to cmd will come. What a subscription answers is no reply: it comes as a push, once for
// each channel.
func (c *conn) expect(cmd Command, fault *Injected) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		if fault != nil {
			fault.unclaim()
		}
	case strings.HasSuffix(cmd.Name(), "SUBSCRIBE"):
		c.subscribed = true
	default:
		c.pending = append(c.pending, fault)
	}
}

// readReplies reads what Redis answers and hands it over for delivery.
func (c *conn) readReplies(server io.Reader, replies chan<- delivery) error {
	r := bufio.NewReader(server)
	for {
		frame, err := readFrame(r)
		if err != nil {
			return err
		}
		d := delivery{frame: frame}
		if fault := c.answered(frame); fault != nil {
			switch fault.fault.Do {
			case SwallowReply:
				d = delivery{held: fault, last: true}
			case DelayReply:
				d.held, d.due = fault, time.Now().Add(fault.fault.By)
			}
		}
		select {
		case replies <- d:
		case <-c.done:
			return nil
		}
	}
}

// answered is the fault that a frame from Redis meets, or nil. NOSCRIPT meets none: it only asks the client for the
// script's text, and the fault is for the reply of what is then carried out.
func (c *conn) answered(frame []byte) *Injected {
	c.mu.Lock()
	defer c.mu.Unlock()
	if frame[0] == '>' || c.subscribed && isPublished(frame) || len(c.pending) == 0 {
		return nil
	}
	fault := c.pending[0]
	c.pending = c.pending[1:]
	if fault != nil && bytes.HasPrefix(frame, []byte("-NOSCRIPT")) {
		fault.unclaim()
		return nil
	}
	return fault
}

// deliver writes replies to the client, each when it is due. It does the waiting, so that of two replies that are
// both delayed the second is not delayed twice.
func (c *conn) deliver(replies <-chan delivery) error {
	w := bufio.NewWriter(c.client)
	for {
		var d delivery
		select {
		case d = <-replies:
		case <-c.done:
			return nil
		}
		if d.last {
			err := w.Flush()
			d.held.hit() // before the client can know
			c.close()
			return err
		}
		if d.held != nil {
			d.held.hit()
			if err := w.Flush(); err != nil {
				return err
			}
			if !c.hold(d) {
				return nil
			}
		}
		if _, err := w.Write(d.frame); err != nil {
			return err
		}
		if len(replies) == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

// hold returns when d is due or its fault is removed; false when the connection ends first, so that d is not delivered.
func (c *conn) hold(d delivery) bool {
	timer := time.NewTimer(time.Until(d.due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.held.removed:
		return true
	case <-c.done:
		return false
	}
}
