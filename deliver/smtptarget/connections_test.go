package smtptarget

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// Connections are shared, up to the limit, and only by those who log in as the same.
func TestConnections(t *testing.T) {
	p := start(t, nil, nil)
	s := sender(t, Options{})
	set := p.target(t, func(s *SMTP) { s.MaxConnections = 3 })
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if err := s.Deliver(
				t.Context(), jobOf(fmt.Sprintf(`{"to": "a%d@example.com", "text": "x"}`, i)), opened(), set,
			); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := p.count(); n > 3 || len(p.got()) != 50 {
		t.Errorf("%d messages on %d connections", len(p.got()), n)
	}
	n := p.count()
	mine := p.target(t, func(s *SMTP) { s.Username, s.Password = "me", password })
	if err := s.Deliver(t.Context(), plainJob(), opened(), mine); err != nil || p.count() != n+1 {
		t.Errorf("%v; %d connections, want %d", err, p.count(), n+1)
	}
	other := p.target(t, func(s *SMTP) { s.Username, s.Password = "me", "guessed" })
	wants(t, s.Deliver(t.Context(), plainJob(), opened(), other), queue.Down, "535")
}

// A connection that ended while it was idle, or while its job waited in the gate, is replaced, and nothing is
// spent.
func TestEndedIdle(t *testing.T) {
	p := start(t, nil, nil)
	s := sender(t, Options{})
	set := p.target(t, nil)
	deliver := func(g *gate) {
		t.Helper()
		if err := s.Deliver(t.Context(), plainJob(), g, set); err != nil {
			t.Fatal(err)
		}
	}
	ended := func() bool {
		pool, _ := s.pool("mail", set)
		pool.mu.Lock()
		defer pool.mu.Unlock()
		return len(pool.idle) == 1 && !pool.idle[0].alive()
	}
	deliver(opened())
	p.hangUp()
	await.Until(t, "the end has arrived", ended)
	deliver(opened())
	pool, _ := s.pool("mail", set)
	pool.mu.Lock()
	used := pool.idle[0] // it is taken again
	pool.mu.Unlock()
	g := opened()
	var once sync.Once
	g.wait = func() {
		once.Do(func() {
			p.hangUp()
			await.Until(t, "the end has arrived at the gate", func() bool { return !used.alive() })
		})
	}
	deliver(g)
	if len(p.got()) != 3 || p.count() != 3 {
		t.Errorf("%d messages on %d connections", len(p.got()), p.count())
	}
	// One that has not been used for long is asked first; here it has become a black hole but for RSET.
	pool.mu.Lock()
	pool.idle[0].used = time.Now().Add(-time.Minute)
	pool.mu.Unlock()
	deliver(opened())
	if p.count() != 3 {
		t.Errorf("%d connections", p.count())
	}
}

// A server that is slow to greet gets no job late; its connection is there for the next. MAIL FROM is not written
// before the gate.
func TestSlowHandshake(t *testing.T) {
	greet := make(chan struct{})
	host, port := script(t, func(_ int, c net.Conn, r *bufio.Reader) {
		<-greet
		play(c, r, "220 hi", nil)
	})
	s := sender(t, Options{})
	set := target(t, host, port, func(s *SMTP) { s.MaxConnections = 2 })
	for range 5 {
		g := opened()
		g.closes = time.Now().Add(20 * time.Millisecond)
		g.wait = func() { t.Error("was at the gate without a connection") }
		wants(t, s.Deliver(t.Context(), plainJob(), g, set), queue.Release)
	}
	close(greet)
	await.Until(t, "delivered on a connection that came late", func() bool {
		g := opened()
		g.closes = time.Now().Add(50 * time.Millisecond)
		return s.Deliver(t.Context(), plainJob(), g, set) == nil
	})
	// And one whose gate refuses writes nothing, and keeps its connection.
	g := opened()
	g.err = drain.ErrLate
	wants(t, s.Deliver(t.Context(), plainJob(), g, set), queue.Release)
	pool, _ := s.pool("mail", set)
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.open == 0 || len(pool.idle) != pool.open {
		t.Errorf("%d idle of %d", len(pool.idle), pool.open)
	}
}

// Servers that cannot be used, and what is told of it. None spends an attempt.
func TestUnprepared(t *testing.T) {
	serverTLS, clientTLS := certificate(t)
	const nobody = 1 // listens there
	s := sender(t, Options{TLS: clientTLS})
	wants(
		t, s.Deliver(t.Context(), plainJob(), opened(), target(t, "127.0.0.1", nobody, nil)), queue.Down,
		"connecting to 127.0.0.1:", "refused",
	)

	p := start(t, serverTLS, nil)
	guarded := New(Options{}) // as for a target that anybody may have named
	wants(t, guarded.Deliver(t.Context(), plainJob(), opened(), p.target(t, nil)), queue.Down, "loopback", egress.Flag)
	_ = guarded.Close()
	wants(
		t,
		s.Deliver(t.Context(), plainJob(), opened(), p.target(t, func(s *SMTP) {
			s.TLS, s.Username, s.Password = StartTLS, "me", "wr0ng-one"
		})),
		queue.Down, "login to", "535", "check deliver.smtp.username",
	)
	wants(
		t,
		s.Deliver(t.Context(), plainJob(), opened(), p.target(t, func(s *SMTP) {
			s.TLS, s.Username, s.Password, s.Mechanism = StartTLS, "me", password, CRAMMD5
		})),
		queue.Down, "does not offer cram-md5, but PLAIN LOGIN",
	)
	wants(
		t, sender(t, Options{}).Deliver(t.Context(), plainJob(), opened(), p.target(t, func(s *SMTP) { s.TLS = StartTLS })),
		queue.Down, "STARTTLS with", "deliver.smtp.host",
	)
	wants(
		t,
		s.Deliver(t.Context(), plainJob(), opened(), p.target(t, func(s *SMTP) {
			s.Username, s.Password = "me", "${secret:NOT_THERE}"
		})),
		queue.Down, "there is no secret NOT_THERE",
	)
	if err := sender(t, Options{}).Deliver(t.Context(), plainJob(), opened(), p.target(t, func(s *SMTP) {
		s.TLS = Opportunistic
	})); err != nil || !p.got()[0].secure {
		t.Errorf("opportunistic: %v", err)
	}

	bare := start(t, nil, nil)
	wants(
		t, s.Deliver(t.Context(), plainJob(), opened(), bare.target(t, func(s *SMTP) { s.TLS = StartTLS })), queue.Down,
		"does not offer it", "deliver.smtp.tls",
	)
	if bare.froms != 0 {
		t.Error("MAIL FROM was sent in the clear")
	}
	host, port := script(t, func(_ int, c net.Conn, r *bufio.Reader) { play(c, r, "220 hi", nil) })
	wants(
		t,
		s.Deliver(t.Context(), plainJob(), opened(), target(t, host, port, func(s *SMTP) {
			s.Username, s.Password = "me", password
		})),
		queue.Down, "offers no login here",
	)
	for greeting, want := range map[string]queue.Verdict{
		"421 too many connections": queue.Throttle, "554 no service": queue.Down, "hello": queue.Down,
	} {
		host, port := script(t, func(_ int, c net.Conn, r *bufio.Reader) { play(c, r, greeting, nil) })
		wants(t, s.Deliver(t.Context(), plainJob(), opened(), target(t, host, port, nil)), want, "the greeting of")
	}
}
