package httptarget

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/penstock/penstock/deliver/egress"
)

var errClosed = errors.New("the sender is closed")

const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// failureAge is how long a failed dial counts against its address.
	failureAge  = 30 * time.Second
	maxFailures = 10_000
)

// dialer makes connections, and remembers failures. A dial goes on even if its delivery has given up. The connection is
// kept for the next. So a receiver gets connections even if its handshake takes longer than a departure is granted
// ahead. The failure of such a dial is for the next delivery, too.
type dialer struct {
	guard     *egress.Guard
	connect   func(ctx context.Context, network, address string) (net.Conn, error)
	handshake time.Duration // maximum

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

func newDialer(guard *egress.Guard) *dialer {
	d := &dialer{
		guard: guard, connect: guard.Dialer(net.Dialer{Timeout: dialTimeout}), handshake: handshakeTimeout,
		failures: make(map[string]failure),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// tlsDialer dials for one pool.
type tlsDialer struct {
	*dialer
	tls   *tls.Config
	base  *tls.Config // for a proxy
	proxy *proxy
	name  string // of the pool
}

// dial connects to a receiver, with TLS if its scheme is https.
func (d *tlsDialer) dial(to place) (net.Conn, error) {
	return d.remember(d.key(to), func(ctx context.Context) (net.Conn, error) {
		c, err := d.reach(ctx, to.scheme, "tcp", to.address)
		if err != nil || to.scheme != "https" {
			return c, err
		}
		return d.shake(ctx, c, d.tls, to.address)
	})
}

// reach connects to a receiver, through a proxy if it has one.
func (d *tlsDialer) reach(ctx context.Context, scheme, network, address string) (net.Conn, error) {
	p, err := d.proxy.of(scheme, address)
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return d.connect(ctx, network, address)
	}
	return d.through(ctx, p, network, address)
}

// shake returns a connection with TLS over plain, or closes plain.
func (d *dialer) shake(ctx context.Context, plain net.Conn, config *tls.Config, address string) (net.Conn, error) {
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
}

func (d *tlsDialer) key(to place) string { return d.name + to.scheme + "://" + to.address }

// failed returns why the last dial of a receiver failed, nil if it did not or that was long ago.
func (d *tlsDialer) failed(to place) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.failures[d.key(to)]
	if !ok || time.Since(f.at) > failureAge {
		return nil
	}
	return f.err
}

// remember dials, and remembers under a key whether that failed.
func (d *dialer) remember(key string, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errClosed
	}
	d.dials.Add(1)
	d.mu.Unlock()
	defer d.dials.Done()
	c, err := dial(d.ctx)

	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if len(d.failures) >= maxFailures {
			clear(d.failures)
		}
		d.failures[key] = failure{err, time.Now()}
		return nil, err
	}
	delete(d.failures, key)
	return c, nil
}

func (d *dialer) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel()
	d.dials.Wait()
}
