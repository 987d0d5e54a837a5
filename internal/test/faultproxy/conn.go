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

// A conn is a connection of a client and the corresponding connection to Redis.
type conn struct {
	proxy  *Proxy
	target string
	client net.Conn

	once sync.Once
	done chan struct{}

	mu         sync.Mutex
	redis      net.Conn
	closed     bool
	pending    []*Injected // faults of the expected replies, in order; nil for no fault
	subscribed bool
}

// A delivery is a reply on its way back to the client.
type delivery struct {
	frame []byte
	held  *Injected // delays the reply until due, or until the fault is removed
	due   time.Time
	last  bool // close the connection instead
}

// run runs the connection until it has ended.
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
	case <-c.done: // closed while dialing
		_ = server.Close()
	default:
	}
	wait.Wait()
}

// close closes both sides at once. Calling it again does nothing.
//
// Faults whose replies will not come any more are freed before the client notices, so that they apply to its next
// commands.
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

// note keeps errors, except the errors of connections that end.
func (c *conn) note(err error) {
	var network net.Error
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &network) {
		return
	}
	c.proxy.fail(err)
}

// readCommands passes commands on to Redis, and records the faults of their replies.
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

// expect records that a reply to cmd will come. A subscription has no reply, but a push for each channel.
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

// readReplies reads the answers of Redis and queues them for delivery.
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

// answered returns the fault of a frame from Redis, or nil. NOSCRIPT has none: it only asks the client for the script's
// text, and the fault is for the reply to the script itself.
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

// deliver writes replies to the client, each when it is due. It waits itself, so that the second of two delayed replies
// is not delayed twice.
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

// hold waits until d is due or its fault is removed. It returns false if the connection ends first.
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
