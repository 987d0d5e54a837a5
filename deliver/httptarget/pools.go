package httptarget

import (
	"strconv"
	"sync"
	"time"
)

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
		found = &pool{
			dialer: &tlsDialer{p.dialer, config, base, t.proxy, key.print + "," + strconv.Itoa(most) + ","},
			most:   most, mostIdle: max(leastIdleConns, 4*p.o.Concurrency), idleFor: idleTimeout,
			receivers: make(map[place]*receiver),
		}
		p.known[key] = found
	}
	found.used.Store(time.Now().UnixNano())
	if len(p.known) > maxPools {
		p.evict()
	}
	return found, nil
}

// evict drops the least recently used pool. Its requests go on.
func (p *pools) evict() {
	var oldest poolKey
	for key, pool := range p.known {
		if o := p.known[oldest]; o == nil || pool.used.Load() < o.used.Load() {
			oldest = key
		}
	}
	p.known[oldest].close()
	delete(p.known, oldest)
}

// close closes idle connections, and waits for connections being made.
func (p *pools) close() {
	p.dialer.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pool := range p.known {
		pool.close()
	}
}
