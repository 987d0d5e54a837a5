package post

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/deliver/egress"
)

const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// failureAge is how long a failed dial is held against its address.
	failureAge  = 30 * time.Second
	maxFailures = 10_000
)

var (
	errShut   = errors.New("the connection was not handed out")
	errClosed = errors.New("the sender is closed")
)

// conn is a connection, above TLS, that writes only when it was handed out: a request
// whose gate refused cannot leave, whatever net/http does with it.
type conn struct {
	net.Conn
	out   atomic.Bool
	first atomic.Pointer[attempt] // the one whose first byte is the next; nil once that was let out
	wrote atomic.Int64
}

func (c *conn) Write(b []byte) (int, error) {
	if !c.out.Load() {
		return 0, errShut
	}
	if a := c.first.Swap(nil); a != nil {
		if err := a.leave(); err != nil {
			c.out.Store(false)
			return 0, err
		}
	}
	c.wrote.Add(1) // before: an error does not mean that nothing left
	return c.Conn.Write(b)
}

// dialer makes connections. net/http finishes a dial even when the request that it was
// for has given up, and keeps the connection for the next: that is how a receiver whose handshake
// takes longer than a departure is granted ahead gets its connections. But then
// nobody is told when the dial fails. The dialer remembers.
type dialer struct {
	connect   func(ctx context.Context, network, address string) (net.Conn, error)
	tls       *tls.Config
	handshake time.Duration // at most

	ctx    context.Context // ends with close
	cancel context.CancelFunc

	mu       sync.Mutex
	closed   bool
	dials    sync.WaitGroup
	failures map[string]failure
}

type failure struct {
	err error
	at  time.Time
}

func newDialer(config *tls.Config, guard *egress.Guard) *dialer {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	d := &dialer{
		connect: guard.Dialer(net.Dialer{Timeout: dialTimeout}), tls: config, handshake: handshakeTimeout, failures: make(map[string]failure),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return d.remember(ctx, "http", address, func(ctx context.Context) (net.Conn, error) {
		return d.connect(ctx, network, address)
	})
}

func (d *dialer) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	return d.remember(ctx, "https", address, func(ctx context.Context) (net.Conn, error) {
		plain, err := d.connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		config := d.tls
		if config.ServerName == "" {
			config = config.Clone()
			config.ServerName, _, _ = net.SplitHostPort(address)
		}
		ctx, cancel := context.WithTimeout(ctx, d.handshake)
		defer cancel()
		secured := tls.Client(plain, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = plain.Close()
			return nil, fmt.Errorf("TLS handshake with %s: %w", address, err)
		}
		return secured, nil
	})
}

func (d *dialer) remember(ctx context.Context, scheme, address string, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errClosed
	}
	d.dials.Add(1)
	d.mu.Unlock()
	defer d.dials.Done()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	c, err := dial(ctx)

	d.mu.Lock()
	defer d.mu.Unlock()
	key := scheme + "://" + address
	if err != nil {
		if len(d.failures) >= maxFailures {
			clear(d.failures)
		}
		d.failures[key] = failure{err, time.Now()}
		return nil, err
	}
	delete(d.failures, key)
	if d.closed {
		_ = c.Close()
		return nil, errClosed
	}
	return &conn{Conn: c}, nil
}

// failed returns why the last dial of an address failed, if it did lately.
func (d *dialer) failed(scheme, address string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.failures[scheme+"://"+address]
	if !ok || time.Since(f.at) > failureAge {
		return nil
	}
	return f.err
}

func (d *dialer) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel()
	d.dials.Wait()
}
