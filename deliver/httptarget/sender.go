package httptarget

import (
	"bytes"
	"context"
	"crypto/tls"
	"time"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// Options are the settings of a Sender. The zero Options are valid.
type Options struct {
	// Concurrency is the drainer's: at most so many connections to one host are kept. The default is
	// drain.DefaultConcurrency.
	Concurrency int
	// Secrets resolves ${secret:NAME}.
	Secrets secrets.Source
	// Egress decides where connections may go; nil permits only public addresses.
	Egress *egress.Guard
	// TLS is the configuration of TLS clients; the default trusts the system's roots.
	TLS *tls.Config
}

// Sender posts jobs over HTTP/1.1.
//
// It does not use HTTP/2, where requests share a connection: a request that gets the connection need not be the next to
// write. A gate in front of it could neither be precise nor refuse.
type Sender struct {
	secrets secrets.Source
	pools   pools
}

// New returns a Sender. Close it after the last delivery has ended.
func New(o Options) *Sender {
	if o.Concurrency <= 0 {
		o.Concurrency = drain.DefaultConcurrency
	}
	return &Sender{secrets: o.Secrets, pools: pools{o: o, dialer: newDialer(o.Egress), known: make(map[poolKey]*pool)}}
}

// Close closes idle connections, and waits for connections being made.
func (s *Sender) Close() error {
	s.pools.close()
	return nil
}

// Deliver makes one attempt. docs/targets/http.md describes its errors.
func (s *Sender) Deliver(ctx context.Context, job *drain.Job, gate drain.Gate, to setting.Setting) error {
	target, err := to.(*Target).resolve(s.secrets, job.Queue)
	if err != nil {
		return drain.Down(err)
	}
	w, err := target.wired()
	if err != nil {
		return drain.Down(errURL)
	}
	pool, err := s.pools.of(target)
	if err != nil {
		return drain.Down(&secrets.Error{Err: err})
	}
	b := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(b)
	c := call{ctx: ctx, gate: gate, timeout: target.Timeout.D(), pool: pool, out: w.render(b, job, target)}
	answer, err := c.do() //nolint:bodyclose // end closes the connection
	if err != nil {
		c.end(nil, false)
		return c.explain(Veil(err, func(text string) string { return hide(text, job, target) }))
	}
	if job.Spec != nil {
		job.ReportBudget(target.BudgetLeft(job.Spec, answer.Header, time.Now(), job.Costs))
	}
	used := target.usage.Read(answer.Header, job.Costs)
	head, whole := c.beginning(answer, used)
	c.end(answer, whole)
	err = judge(answer, head, job, target)
	reportActual(job, used, whole, drain.What(err).Verdict == queue.Deliver)
	return err
}
