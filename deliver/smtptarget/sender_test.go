package smtptarget

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/penstock/penstock/deliver/bounce"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/keytest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// A message arrives over STARTTLS and over TLS from the first byte, after a login by each mechanism, with its secret
// from a file.
func TestDelivers(t *testing.T) {
	serverTLS, clientTLS := certificate(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "SMTP"), []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mechanism := range []string{Auto, Plain, Login} {
		p := start(t, serverTLS, nil)
		s := sender(t, Options{TLS: clientTLS, Secrets: secrets.Source{Dir: dir, Allow: keytest.Allow(t, fmt.Sprintf(
			"SMTP=127.0.0.1:%d", p.target(t, nil).Port,
		))}})
		set := p.target(t, func(s *SMTP) {
			s.TLS, s.Username, s.Password, s.Mechanism = StartTLS, "me", "${secret:SMTP}", mechanism
		})
		job := jobOf(`{"from": "Shop <shop@example.com>", "to": ["Ann <a@example.com>", "b@example.com"],
			"cc": "c@example.com", "bcc": ["d@example.com", "a@example.com"],
			"subject": "Grüße", "text": "plain\n.\n.dot", "html": "<p>ä</p>",
			"headers": {"List-Unsubscribe": "<https://example.com/u>"},
			"attachments": [{"name": "ü.pdf", "content_type": "application/pdf", "content": "aGVsbG8="}]}`)
		for range 2 {
			if err := s.Deliver(t.Context(), job, opened(), set); err != nil {
				t.Fatal(mechanism, err)
			}
		}
		got := p.got()
		if len(got) != 2 || p.count() != 2 { // go-smtp has one session before STARTTLS and one after
			t.Fatalf("%s: %d messages on %d sessions", mechanism, len(got), p.count())
		}
		m := got[0]
		if !m.secure || m.from != "shop@example.com" || strings.Join(m.to, " ") != "a@example.com b@example.com "+
			"c@example.com d@example.com" {
			t.Errorf("envelope %+v", m)
		}
		read, err := mail.ReadMessage(strings.NewReader(m.text))
		if err != nil {
			t.Fatal(err)
		}
		if read.Header.Get("Bcc") != "" || strings.Contains(m.text, "d@example.com") {
			t.Error("Bcc is shown")
		}
		again, _ := mail.ReadMessage(strings.NewReader(got[1].text))
		if id := read.Header.Get("Message-Id"); !strings.HasSuffix(id, "@example.com>") ||
			id != again.Header.Get("Message-Id") {
			t.Errorf("Message-ID %q, then %q", id, again.Header.Get("Message-Id"))
		}
		for _, part := range []string{
			"=C3=BC", ".dot", "aGVsbG8=", "List-Unsubscribe: <https://example.com/u>", "multipart/alternative",
			`To: "Ann" <a@example.com>`,
		} {
			if !strings.Contains(m.text, part) {
				t.Errorf("no %q in %s", part, m.text)
			}
		}
	}
}

func TestImplicitTLS(t *testing.T) {
	serverTLS, clientTLS := certificate(t)
	host, port := script(t, func(_ int, c net.Conn, _ *bufio.Reader) {
		secured := tls.Server(c, serverTLS)
		play(secured, bufio.NewReader(secured), "220 hi", nil)
	})
	s := sender(t, Options{TLS: clientTLS})
	if err := s.Deliver(t.Context(), plainJob(), opened(), target(
		t, host, port, func(s *SMTP) { s.TLS = ImplicitTLS },
	)); err != nil {
		t.Error(err)
	}
	// Without the authority nothing is said to it.
	err := sender(t, Options{}).Deliver(t.Context(), plainJob(), opened(), target(
		t, host, port, func(s *SMTP) { s.TLS = ImplicitTLS },
	))
	wants(t, err, queue.Down, "TLS with "+host, "certificate")
}

// A ready message is sent as it is, but for Bcc, and by the envelope of its headers.
func TestReady(t *testing.T) {
	p := start(t, nil, nil)
	s := sender(t, Options{})
	job := jobOf(
		"From: Me <me@example.com>\r\nTo: a@example.com,\r\n b@example.com\r\nBcc: c@example.com,\r\n " +
			"d@example.com\r\nReturn-Path: <x@example.com>\r\nSubject: hi\r\n\r\n.\r\nBcc: body\r\n",
	)
	job.ContentType = "message/rfc822"
	if err := s.Deliver(t.Context(), job, opened(), p.target(t, nil)); err != nil {
		t.Fatal(err)
	}
	m := p.got()[0]
	if m.from != "me@example.com" || strings.Join(m.to, " ") != "a@example.com b@example.com c@example.com d@example.com" {
		t.Errorf("envelope %+v", m)
	}
	if !strings.HasSuffix(
		m.text, "From: Me <me@example.com>\r\nTo: a@example.com,\r\n b@example.com\r\nSubject: hi\r\n\r\n.\r\nBcc: body\r\n",
	) ||
		!strings.HasPrefix(m.text, "Message-ID: <") || !strings.Contains(m.text, "\r\nDate: ") {
		t.Errorf("message %q", m.text)
	}
}

// SMTPUTF8 is asked for only by messages that need it, and those are refused where it is missing.
func TestUTF8(t *testing.T) {
	job := jobOf(`{"to": "grüße@example.com", "text": "x"}`)
	p := start(t, nil, nil)
	s := sender(t, Options{})
	if err := s.Deliver(t.Context(), plainJob(), opened(), p.target(t, nil)); err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(t.Context(), job, opened(), p.target(t, nil)); err != nil {
		t.Fatal(err)
	}
	if got := p.got(); got[0].utf8 || !got[1].utf8 || got[1].to[0] != "grüße@example.com" {
		t.Errorf("got %+v", got)
	}
	old := start(t, nil, func(p *peer) { p.srv.EnableSMTPUTF8 = false })
	wants(t, s.Deliver(t.Context(), job, opened(), old.target(t, nil)), queue.Bury, "SMTPUTF8")
	if old.froms != 0 {
		t.Error("MAIL FROM was sent")
	}
}

// What becomes of a message some of whose recipients are not accepted: nobody gets it twice, and nobody is forgotten.
func TestRecipients(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers map[string]*smtp.SMTPError // by recipient
		attempt int
		want    queue.Verdict
		says    []string
		sent    string
	}{
		{"all are accepted", nil, 1, queue.Deliver, nil, "a@x.de b@x.de c@x.de"},
		{
			"one is refused", answers("b", 550, 5, 1, 1), 1, queue.Bury,
			[]string{"delivered to 2 of 3", "b@x.de (550"},
			"a@x.de c@x.de",
		},
		{"one is put off", answers("b", 450, 4, 2, 0), 1, queue.Fail, []string{"sent to nobody", "b@x.de (450"}, ""},
		{
			"one is put off for the last time", answers("b", 450, 4, 2, 0), 8, queue.Bury,
			[]string{"delivered to 2 of 3", "b@x.de (450"},
			"a@x.de c@x.de",
		},
		{"greylisted", answers("b", 451, 4, 7, 1), 1, queue.Fail, []string{"put off"}, ""},
		{"mailbox full", answers("b", 452, 4, 2, 2), 1, queue.Fail, []string{"put off"}, ""},
		{"the server has enough", answers("b", 451, 4, 7, 28), 1, queue.Throttle, []string{"451"}, ""},
		{"the server leaves", answers("b", 421, 4, 3, 2), 1, queue.Throttle, []string{"421"}, ""},
		{
			"all are refused", answers("abc", 550, 5, 1, 1), 1, queue.Bury,
			[]string{"sent to nobody", "a@x.de", "b@x.de", "c@x.de"},
			"",
		},
		{"all are put off for the last time", answers("abc", 450, 4, 2, 0), 8, queue.Fail, []string{"sent to nobody"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, nil, func(p *peer) {
				p.onRcpt = func(to string) error {
					if e := c.answers[to[:1]]; e != nil {
						return e
					}
					return nil
				}
			})
			s := sender(t, Options{})
			job := jobOf(`{"to": ["a@x.de", "b@x.de", "c@x.de"], "text": "x"}`)
			job.Attempt = c.attempt
			wants(t, s.Deliver(t.Context(), job, opened(), p.target(t, nil)), c.want, c.says...)
			sent := ""
			if got := p.got(); len(got) > 0 {
				sent = strings.Join(got[0].to, " ")
			}
			if sent != c.sent {
				t.Errorf("sent to %q, want %q", sent, c.sent)
			}
			if strings.HasPrefix(c.name, "the server leaves") {
				return
			}
			// The connection is as good as new.
			if err := s.Deliver(t.Context(), jobOf(`{"to": "z@x.de", "text": "y"}`), opened(), p.target(t, nil)); err != nil {
				t.Error(err)
			}
			if p.count() != 1 {
				t.Errorf("%d connections", p.count())
			}
		})
	}
}

// A message that is refused as such is refused for all who were accepted, and its reason names them to programs.
func TestBounces(t *testing.T) {
	p := start(t, nil, func(p *peer) {
		p.onRcpt = func(to string) error {
			if e := answers("b", 550, 5, 1, 1)[to[:1]]; e != nil {
				return e
			}
			return nil
		}
		p.onData = func() error {
			return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "spam (see a@x.de)"}
		}
	})
	err := sender(t, Options{}).Deliver(
		t.Context(), jobOf(`{"to": ["a@x.de", "b@x.de", "c@x.de"], "text": "x"}`), opened(), p.target(t, nil),
	)
	wants(t, err, queue.Bury, "the message was refused for ")
	want := []bounce.Bounce{
		{Address: "b@x.de", Code: 550, Status: "5.1.1", Text: "no"},
		{Address: "a@x.de", Code: 554, Status: "5.7.1", Text: "spam [see a@x.de]"},
		{Address: "c@x.de", Code: 554, Status: "5.7.1", Text: "spam [see a@x.de]"},
	}
	if got := bounce.Parse(err.Error()); !slices.Equal(got, want) {
		t.Errorf("%v\n is read as %+v", err, got)
	}
}

func answers(of string, code, class, subject, detail int) map[string]*smtp.SMTPError {
	m := map[string]*smtp.SMTPError{}
	for _, r := range of {
		m[string(r)] = &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{class, subject, detail}, Message: "no"}
	}
	return m
}

// A try that could not be followed by another in time is the last one: who is accepted then is sent to.
func TestRecipientsAndTheDeadline(t *testing.T) {
	for _, c := range []struct {
		left, backoff time.Duration // until the deadline
		says          string        // by the server
		want          queue.Verdict
	}{
		{0, time.Minute, "no", queue.Fail}, // there is none
		{time.Hour, time.Minute, "no", queue.Fail},
		{50 * time.Second, time.Minute, "no", queue.Bury},
		{time.Hour, time.Minute, "wait 2 hours", queue.Bury},
		{3 * time.Hour, time.Minute, "wait 2 hours", queue.Fail},
		{-time.Second, time.Millisecond, "no", queue.Bury},
	} {
		p := start(t, nil, func(p *peer) {
			p.onRcpt = func(to string) error {
				if to[0] == 'b' {
					return &smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 2, 0}, Message: c.says}
				}
				return nil
			}
		})
		job := jobOf(`{"to": ["a@x.de", "b@x.de"], "text": "x"}`)
		retry := &job.Spec.Retry
		retry.MinBackoff, retry.MaxBackoff, retry.Jitter = unit.Duration(c.backoff), unit.Duration(c.backoff), "none"
		if c.left != 0 {
			job.Deadline = time.Now().Add(c.left)
		}
		err := sender(t, Options{}).Deliver(t.Context(), job, opened(), p.target(t, nil))
		if said := drain.What(err); said.Verdict != c.want ||
			len(p.got()) != map[bool]int{true: 1, false: 0}[c.want == queue.Bury] {
			t.Errorf("%v left, backoff %v, %q: %v, sent %d times", c.left, c.backoff, c.says, err, len(p.got()))
		}
	}
}

// A connection that is lost before the final dot means that nothing was sent; after it, that nobody knows. What the
// server may have is never said to be failed.
func TestLost(t *testing.T) {
	for _, c := range []struct {
		at      string
		want    queue.Verdict
		trouble bool
	}{
		{"MAIL", queue.Down, false}, {"RCPT", queue.Fail, true}, {"DATA", queue.Fail, true}, {".", queue.Hold, true},
	} {
		for _, pipelining := range []string{"", "250-PIPELINING\r\n"} {
			host, port := script(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				play(conn, r, "220 hi", map[string]string{"EHLO": "250-hi\r\n" + pipelining + "250 OK", c.at: "-"})
			})
			err := sender(t, Options{}).Deliver(t.Context(), plainJob(), opened(), target(t, host, port, nil))
			wants(t, err, c.want)
			if said := drain.What(err); said.Trouble != c.trouble {
				t.Errorf("lost at %s: trouble %v", c.at, said.Trouble)
			}
		}
	}
	for _, answer := range []string{"", "354 what?", "nonsense", "100 continue"} { // to the message
		synctest.Test(t, func(t *testing.T) {
			s := piped(t, func(conn net.Conn, r *bufio.Reader) {
				play(conn, r, "220 hi", map[string]string{".": answer})
			})
			wants(t, s.Deliver(t.Context(), plainJob(), opened(), target(t, "127.0.0.1", 25, func(s *SMTP) {
				s.Timeout = unit.Duration(300 * time.Millisecond)
			})), queue.Hold)
		})
	}
}

// A drainer that stops while the answer to the message is awaited does not know either.
func TestStoppedBehindTheDot(t *testing.T) {
	stopped := func(at func(*peer, func() error)) error {
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		p := start(t, nil, func(p *peer) {
			at(p, func() error { stop(drain.ErrStopping); <-t.Context().Done(); return nil })
		})
		return sender(t, Options{}).Deliver(ctx, plainJob(), opened(), p.target(t, nil))
	}
	err := stopped(func(p *peer, do func() error) { p.onData = do })
	wants(t, err, queue.Hold, drain.ErrStopping.Error())
	err = stopped(func(p *peer, do func() error) { p.onRcpt = func(string) error { return do() } })
	wants(t, err, queue.Release)
	if !errors.Is(err, drain.ErrStopping) {
		t.Errorf("before the dot: %v", err)
	}
}
