package smtptarget

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// handler delivers to one target.
type handler struct {
	s   *Sender
	set *SMTP
}

func (h handler) Handle(ctx context.Context, job *drain.Job, g drain.Gate) error {
	return h.s.Deliver(ctx, job, g, h.set)
}

// run drains n jobs of a queue until it holds none, or as done says.
func run(
	t *testing.T, e queue.Engine, spec queue.Spec, n int, h drain.Handler, log *slog.Logger, done func(queue.Info) bool,
) queue.Info {
	t.Helper()
	spec.Name = "mail"
	spec.Retry.MinBackoff = unit.Duration(time.Millisecond)
	if _, err := e.Put(t.Context(), spec, 0); err != nil {
		t.Fatal(err)
	}
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = queue.Job{
			Queue: "mail", ID: fmt.Sprintf("%04d", i), Payload: fmt.Appendf(nil, `{"to": "%04d@example.com", "text": "x"}`, i),
		}
	}
	if _, err := e.Append(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- drain.Run(ctx, e, h, drain.Options{Logger: log}) }()
	var info queue.Info
	var err error
	await.Until(t, "drained", func() bool {
		if info, err = e.Get(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
		return done(info)
	})
	stop()
	if err := <-end; err != nil {
		t.Error(err)
	}
	return info
}

func drained(i queue.Info) bool { return i.Waiting+i.Scheduled+i.Leased == 0 }

// From a queue to a server that is slow to greet and refuses some at first: everything arrives once, at the rate, as
// the server sees it at MAIL FROM, and on few connections.
func TestEndToEnd(t *testing.T) { engines.Each(t, endToEnd) }

func endToEnd(t *testing.T, e queue.Engine) {
	const n, delta = 300, 100 * time.Millisecond // delta is wide: the machine may be busy
	rate := leaky.PerSecond(150)
	var mu sync.Mutex
	refused := map[string]bool{}
	p := start(t, nil, func(p *peer) {
		p.onHello = func() { pause := time.NewTimer(150 * time.Millisecond); <-pause.C }
		p.onRcpt = func(to string) error {
			mu.Lock()
			defer mu.Unlock()
			if to[3] == '7' && !refused[to] {
				refused[to] = true
				return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "Greylisted"}
			}
			return nil
		}
	})
	set := p.target(t, func(s *SMTP) { s.MaxConnections = 8 })
	info := run(t, e, queue.Spec{Rate: rate}, n, handler{sender(t, Options{}), set}, nil, drained)
	if info.Delivered != n || info.Dead != 0 || info.Retried != n/10 {
		t.Errorf("%d delivered, %d dead, %d retried", info.Delivered, info.Dead, info.Retried)
	}
	ids := map[string]int{}
	for _, m := range p.got() {
		read, err := mail.ReadMessage(strings.NewReader(m.text))
		if err != nil {
			t.Fatal(err)
		}
		ids[read.Header.Get("Message-Id")]++
	}
	if len(ids) != n || len(p.got()) != n {
		t.Errorf("%d messages of %d jobs", len(p.got()), len(ids))
	}
	if c := p.count(); c > 8 {
		t.Errorf("%d connections", c)
	}
	verdict := law.Law{Rate: rate, Slack: queue.LeastSlack, Delta: delta}.Judge(law.At(p.at))
	if !verdict.Held {
		t.Errorf("%d times MAIL FROM in %v, allowed %d", verdict.Worst.Starts, verdict.Worst.Width, verdict.Worst.Allowed)
	}
}

// A queue's deadline makes an attempt the last one, and who is accepted is not forgotten.
func TestPutOffBeyondTheDeadline(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		p := start(t, nil, func(p *peer) {
			p.onRcpt = func(to string) error {
				if to == "off@example.com" {
					return &smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 2, 0}, Message: "wait 1 hour"}
				}
				return nil
			}
		})
		set := p.target(t, nil)
		spec := queue.Spec{Rate: leaky.PerSecond(100), Retry: queue.Retry{Deadline: unit.Duration(10 * time.Minute)}}
		both := copyTo{handler{sender(t, Options{}), set}}
		if info := run(t, e, spec, 3, both, nil, drained); info.Dead != 3 || len(p.got()) != 3 {
			t.Errorf("%d dead, sent %d times", info.Dead, len(p.got()))
		}
	})
}

// copyTo sends to one who is put off, too.
type copyTo struct{ handler }

func (h copyTo) Handle(ctx context.Context, job *drain.Job, g drain.Gate) error {
	both := *job
	both.Payload = []byte(`{"to": ["a@example.com", "off@example.com"], "text": "x"}`)
	return h.handler.Handle(ctx, &both, g)
}

// A server that hangs up behind the final dot: no job is sent twice, unless on_unknown says retry.
func TestHangsUpBehindTheDot(t *testing.T) {
	for _, fate := range []string{queue.UnknownHold, queue.UnknownDead, queue.UnknownRetry} {
		engines.Each(t, func(t *testing.T, e queue.Engine) { hangsUpBehindTheDot(t, e, fate) })
	}
}

func hangsUpBehindTheDot(t *testing.T, e queue.Engine, fate string) {
	p := start(t, nil, func(p *peer) { p.drop = func(n int) bool { return n%3 == 0 } })
	spec := queue.Spec{Rate: leaky.PerSecond(500), OnUnknown: fate}
	info := run(t, e, spec, 30, handler{sender(t, Options{}), p.target(t, nil)}, nil, drained)
	times := map[string]int{}
	for _, m := range p.got() {
		times[m.to[0]]++
	}
	twice := len(p.got()) - len(times)
	switch {
	case len(times) != 30:
		t.Errorf("%s: %d of 30 were sent", fate, len(times))
	case fate == queue.UnknownHold && (twice != 0 || info.Held != 10 || info.Delivered != 20):
		t.Errorf("%s: %d sent twice, %d held, %d delivered", fate, twice, info.Held, info.Delivered)
	case fate == queue.UnknownDead && (twice != 0 || info.Dead != 10 || info.Delivered != 20):
		t.Errorf("%s: %d sent twice, %d dead, %d delivered", fate, twice, info.Dead, info.Delivered)
	case fate == queue.UnknownRetry && (twice == 0 || info.Delivered != 30):
		t.Errorf("%s: %d sent twice, %d delivered", fate, twice, info.Delivered)
	}
}

// A password is quoted by no reason and no log, even where a server repeats what it was sent.
func TestHidesPassword(t *testing.T) {
	for _, mechanism := range []string{Plain, Login} {
		engines.Each(t, func(t *testing.T, e queue.Engine) { hidesPassword(t, e, mechanism) })
	}
}

func hidesPassword(t *testing.T, e queue.Engine, mechanism string) {
	const secret = "s3cret-pa55word"
	var written bytes.Buffer
	p := start(t, nil, nil) // it says which password is wrong
	set := p.target(t, func(s *SMTP) { s.Username, s.Password, s.Mechanism = "me", secret, mechanism })
	spec := queue.Spec{Rate: leaky.PerSecond(100)}
	info := run(t, e, spec, 1, handler{sender(t, Options{}), set}, slog.New(slog.NewTextHandler(
		&written, &slog.HandlerOptions{Level: slog.LevelDebug},
	)),
		func(i queue.Info) bool { return i.Down > 0 })
	job, err := e.Job(t.Context(), "mail", "0000")
	if err != nil {
		t.Fatal(err)
	}
	if all := fmt.Sprintf("%+v %+v %s", info, job, written.String()); !strings.Contains(all, "no, *** is wrong") ||
		strings.Contains(all, secret) {
		t.Errorf("%s: %.2000s", mechanism, all)
	}
}
