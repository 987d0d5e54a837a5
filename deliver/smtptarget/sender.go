package smtptarget

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
)

// maxPools limits the number of pools; beyond it, pools without connections are dropped.
const maxPools = 10_000

// Options are the settings of a Sender. The zero Options are valid.
type Options struct {
	// Egress decides where connections may go; nil permits only public addresses.
	Egress *egress.Guard
	// TLS is the configuration of TLS clients; the default trusts the system's roots.
	TLS *tls.Config
	// Secrets resolves ${secret:NAME}.
	Secrets secrets.Source
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Sender delivers mail. It is safe for concurrent use.
type Sender struct {
	o       Options
	dial    dialer
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	pools map[login]*pool
}

// New returns a Sender. Close it after the last delivery has ended.
func New(o Options) *Sender {
	s := &Sender{o: o, dial: o.Egress.Dialer(net.Dialer{}), pools: make(map[login]*pool)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

var errOver = fmt.Errorf("%w: this process was too busy to begin in time", drain.ErrLate)

// Deliver makes one attempt. Its error is as in drain.Handler.
func (s *Sender) Deliver(ctx context.Context, job *drain.Job, gate drain.Gate, set setting.Setting) error {
	target := set.(*SMTP)
	l, err := target.letter(&job.Job, time.Now())
	if err != nil { // appended before the queue had this target
		return drain.Permanent(err)
	}
	p, err := s.pool(job.Queue, target)
	if err != nil {
		return drain.Down(err)
	}
	for {
		c, err := p.get(ctx, gate.Closes(), target.MaxConnections)
		if err != nil {
			return err
		}
		t := transaction{pool: p, conn: c, letter: l, job: job, timeout: target.Timeout.D()}
		if err := t.fits(); err != nil {
			p.put(c)
			return err
		}
		if err := gate.Wait(ctx); err != nil {
			p.put(c)
			return err
		}
		if !c.alive() { // it has ended, and nothing was written to it
			p.lose(c)
			continue
		}
		if time.Now().After(gate.Closes()) {
			p.put(c)
			return errOver
		}
		return t.run(ctx)
	}
}

func (s *Sender) pool(queueName string, target *SMTP) (*pool, error) {
	password, used, err := s.o.Secrets.Expand(queueName, target.Uses()[0])
	if err != nil {
		return nil, fmt.Errorf("deliver.smtp.password: %w", err)
	}
	k := login{
		host: target.Server, port: target.Port, tls: target.TLS, helo: target.Helo,
		mechanism: target.Mechanism, username: target.Username, password: password,
		hidden: strings.Join(used, "\x00"),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, errClosed
	}
	p := s.pools[k]
	if p == nil {
		if len(s.pools) >= maxPools {
			for k, p := range s.pools {
				if p.unused() {
					delete(s.pools, k)
				}
			}
		}
		p = &pool{login: k, hider: k.hider(), dial: s.dial, trust: s.o.TLS, ctx: s.ctx, running: &s.running}
		s.pools[k] = p
	}
	return p, nil
}

// Close closes idle connections, and waits for connections being made.
func (s *Sender) Close() error {
	s.mu.Lock()
	s.cancel()
	pools := s.pools
	s.pools = nil
	s.mu.Unlock()
	for _, p := range pools {
		p.close()
	}
	s.running.Wait()
	return nil
}

// interrupted returns the error of a failed step. If the delivery's context has ended, the error says that it was
// interrupted and is marked Unsent, which a mark of the caller overrides. Otherwise it is err, or describes a timeout.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return drain.Unsent(fmt.Errorf("interrupted: %w", context.Cause(ctx)))
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errors.New("no answer in time")
	}
	return err
}
