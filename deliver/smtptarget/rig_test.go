package smtptarget

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const password = "correct horse battery"

// peer is a go-smtp server that remembers what it was sent.
type peer struct {
	host string
	port int
	srv  *smtp.Server

	// What it answers; nil is accepted.
	onHello func()
	onMail  func(from string) error
	onRcpt  func(to string) error
	onData  func() error
	drop    func(n int) bool // closes the connection in place of the answer to the n-th message

	mu    sync.Mutex
	conns []*smtp.Conn
	mails []received
	froms int             // MAIL FROM
	at    []time.Duration // MAIL FROM
}

var begin = time.Now()

type received struct {
	from   string
	to     []string
	text   string
	secure bool
	utf8   bool
}

func (p *peer) got() []received {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mails
}

func (p *peer) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// hangUp closes all connections.
func (p *peer) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Conn().Close()
	}
}

type session struct {
	p    *peer
	c    *smtp.Conn
	mail received
}

func (p *peer) NewSession(c *smtp.Conn) (smtp.Session, error) {
	if p.onHello != nil {
		p.onHello()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, c)
	return &session{p: p, c: c}, nil
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain, sasl.Login} }

func (s *session) Auth(mechanism string) (sasl.Server, error) {
	check := func(user, pass string) error {
		if user != "me" || pass != password {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "no, " + pass + " is wrong"}
		}
		return nil
	}
	if mechanism == sasl.Plain {
		return sasl.NewPlainServer(func(_, user, pass string) error { return check(user, pass) }), nil
	}
	return &loginServer{check: check}, nil
}

// loginServer is the LOGIN that go-sasl has no server of.
type loginServer struct {
	check func(user, pass string) error
	asked []string
}

func (l *loginServer) Next(response []byte) ([]byte, bool, error) {
	l.asked = append(l.asked, string(response))
	switch len(l.asked) {
	case 1:
		return []byte("Username:"), false, nil
	case 2:
		return []byte("Password:"), false, nil
	}
	return nil, true, l.check(l.asked[1], l.asked[2])
}

func (s *session) Reset()        { s.mail = received{} }
func (s *session) Logout() error { return nil }

func (s *session) Mail(from string, o *smtp.MailOptions) error {
	now := time.Since(begin)
	s.p.mu.Lock()
	s.p.froms++
	s.p.at = append(s.p.at, now)
	s.p.mu.Unlock()
	if s.p.onMail != nil {
		if err := s.p.onMail(from); err != nil {
			return err
		}
	}
	_, secure := s.c.TLSConnectionState()
	s.mail = received{from: from, secure: secure, utf8: o.UTF8}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.p.onRcpt != nil {
		if err := s.p.onRcpt(to); err != nil {
			return err
		}
	}
	s.mail.to = append(s.mail.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mail.text = string(text)
	if s.p.onData != nil {
		if err := s.p.onData(); err != nil {
			return err
		}
	}
	s.p.mu.Lock()
	s.p.mails = append(s.p.mails, s.mail)
	n := len(s.p.mails) // no other has it: messages come in side by side
	s.p.mu.Unlock()
	if s.p.drop != nil && s.p.drop(n) {
		_ = s.c.Conn().Close()
	}
	return nil
}

// certificate returns a server's and a client's TLS configuration, for example.com and 127.0.0.1.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	t.Cleanup(s.Close)
	client = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}, client
}

// start starts a peer on loopback. Without a TLS configuration it offers none, and lets log in without.
func start(t *testing.T, config *tls.Config, change func(*peer)) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{host: "127.0.0.1", port: l.Addr().(*net.TCPAddr).Port}
	p.srv = smtp.NewServer(p)
	p.srv.Domain = "mx.test"
	p.srv.TLSConfig = config
	p.srv.AllowInsecureAuth = config == nil
	p.srv.ErrorLog = log.New(io.Discard, "", 0)
	p.srv.EnableSMTPUTF8 = true
	if change != nil {
		change(p)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = p.srv.Serve(l) }()
	t.Cleanup(func() { _ = p.srv.Close(); <-done })
	return p
}

// target is a setting for a peer.
func target(t *testing.T, host string, port int, change func(*SMTP)) *SMTP {
	t.Helper()
	s := Default()
	s.Server, s.Port, s.TLS, s.From = host, port, NoTLS, "shop@example.com"
	s.AllowFrom = setting.Patterns{"*@example.com"} // what jobs may choose from_test.go is about
	s.Timeout = unit.Duration(20 * time.Second)
	if change != nil {
		change(s)
	}
	if err := s.Check("deliver.smtp"); err != nil {
		t.Fatal(err)
	}
	return s
}

func (p *peer) target(t *testing.T, change func(*SMTP)) *SMTP {
	return target(t, p.host, p.port, change)
}

func sender(t *testing.T, o Options) *Sender {
	t.Helper()
	guard, err := egress.New(egress.Loopback...)
	if err != nil {
		t.Fatal(err)
	}
	o.Egress = guard
	s := New(o)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func jobOf(payload string) *drain.Job {
	j := &drain.Job{Reservation: queue.Reservation{
		Job:     queue.Job{Queue: "mail", ID: "job-1", Payload: []byte(payload), ContentType: "application/json"},
		Attempt: 1, Revision: 1,
	}}
	j.Spec = &queue.Spec{Retry: queue.Retry{MaxAttempts: 8}}
	return j
}

func plainJob() *drain.Job {
	return jobOf(`{"to": "a@example.com", "subject": "Hello", "text": "How are you?"}`)
}

// gate is a drain.Gate that a test holds.
type gate struct {
	closes time.Time
	wait   func()
	err    error
}

func opened() *gate { return &gate{closes: time.Now().Add(time.Minute)} }

func (g *gate) Wait(context.Context) error {
	if g.wait != nil {
		g.wait()
	}
	return g.err
}
func (g *gate) Closes() time.Time { return g.closes }

// piped has a Sender's connections end at serve, without a network: in a bubble timeouts pass in its time.
func piped(t *testing.T, serve func(c net.Conn, r *bufio.Reader)) *Sender {
	t.Helper()
	var served sync.WaitGroup
	t.Cleanup(served.Wait) // when the Sender is closed
	s := sender(t, Options{})
	s.dial = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		served.Go(func() { defer there.Close(); serve(there, bufio.NewReader(there)) })
		return here, nil
	}
	return s
}

// script is a server that a test plays: what it reads and writes, line by line.
func script(t *testing.T, serve func(n int, c net.Conn, r *bufio.Reader)) (host string, port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	all.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			all.Go(func() { defer c.Close(); serve(n, c, bufio.NewReader(c)) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return "127.0.0.1", l.Addr().(*net.TCPAddr).Port
}

// play answers each command by its first word; what has no answer gets 250. An answer "-" hangs up.
func play(c net.Conn, r *bufio.Reader, greeting string, answers map[string]string) {
	if _, err := io.WriteString(c, greeting+"\r\n"); err != nil {
		return
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		answer, ok := answers[word]
		switch {
		case answer == "-":
			return
		case !ok && word == "DATA":
			answer = "354 go on"
		case !ok && word == "QUIT":
			answer = "221 bye"
		case !ok:
			answer = "250 ok"
		}
		if _, err := io.WriteString(c, answer+"\r\n"); err != nil {
			return
		}
		if word == "DATA" && strings.HasPrefix(answer, "354") {
			for line != ".\r\n" {
				if line, err = r.ReadString('\n'); err != nil {
					return
				}
			}
			answer, ok = answers["."]
			switch {
			case answer == "-":
				return
			case !ok:
				answer = "250 taken"
			}
			if _, err := io.WriteString(c, answer+"\r\n"); err != nil {
				return
			}
		}
	}
}

// wants checks what an error says to the drainer, and to people.
func wants(t *testing.T, err error, verdict queue.Verdict, says ...string) {
	t.Helper()
	said := drain.What(err)
	if errors.Is(err, drain.ErrLate) {
		said.Verdict = queue.Release
	}
	if said.Verdict != verdict {
		t.Errorf("verdict %v of %v, want %v", said.Verdict, err, verdict)
	}
	for _, s := range says {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%v does not say %q", err, s)
		}
	}
}
