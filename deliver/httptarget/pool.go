package httptarget

import (
	"net/http"
	"strconv"
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
	transport *http.Transport
	dialer    *tlsDialer
	used      atomic.Int64 // when it was last used, in ns since 1970
}

// pools keeps the pools in use.
type pools struct {
	o      Options
	dialer *dialer

	mu    sync.RWMutex
	known map[poolKey]*pool // at most maxPools
}

// poolKey is equal for targets that share connections.
type poolKey struct {
	print string // Target.fingerprint
	most  int    // maximum number of connections
}

// of returns the pool of a target.
func (p *pools) of(t *Target) (*pool, error) {
	most := p.o.Concurrency
	if t.MaxConnections != nil {
		most = *t.MaxConnections
	}
	key := poolKey{t.fingerprint(), most}
	p.mu.RLock()
	found := p.known[key]
	p.mu.RUnlock()
	if found != nil {
		found.used.Store(time.Now().UnixNano())
		return found, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if found = p.known[key]; found == nil {
		config, err := t.TLS.config(p.o.TLS)
		if err != nil {
			return nil, err
		}
		base, _ := (*TLS)(nil).config(p.o.TLS) // a nil TLS has no error
		found = p.make(&tlsDialer{p.dialer, config, base, t.proxy, key.print + "," + strconv.Itoa(most) + ","}, most)
		p.known[key] = found
	}
	found.used.Store(time.Now().UnixNano())
	if len(p.known) > maxPools {
		p.evict()
	}
	return found, nil
}

func (p *pools) make(d *tlsDialer, most int) *pool {
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	return &pool{dialer: d, transport: &http.Transport{
		// Proxy is nil: the dialer connects through a proxy if the target has one.
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		MaxConnsPerHost:        most,
		MaxIdleConnsPerHost:    most,
		MaxIdleConns:           max(leastIdleConns, 4*p.o.Concurrency),
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		Protocols:              http1,
	}}
}

// evict drops the least recently used pool. Its requests go on, and its connections are closed after they have been
// idle for a while.
func (p *pools) evict() {
	var oldest poolKey
	for key, pool := range p.known {
		if o := p.known[oldest]; o == nil || pool.used.Load() < o.used.Load() {
			oldest = key
		}
	}
	p.known[oldest].transport.CloseIdleConnections()
	delete(p.known, oldest)
}

// close closes idle connections, and waits for connections being made.
func (p *pools) close() {
	p.dialer.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pool := range p.known {
		pool.transport.CloseIdleConnections()
	}
}
