package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net"
	"net/mail"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

const (
	maxRecipients   = 100 // of a mail
	shownRecipients = 3
	mailMethod      = "MAIL"
	accepted        = "250 2.0.0" // the answer to an accepted mail
)

// ServeSMTP receives mail until ctx ends, and closes the listener. A mail counts as arrived at its MAIL FROM, the
// command that an SMTP target paces. It is answered after its text. It accepts any login.
func (s *Sink) ServeSMTP(ctx context.Context, listener net.Listener) error {
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &mailer{sink: s, ctx: ctx, conn: c.Conn()}, nil
	}))
	server.Domain, server.ErrorLog = "localhost", log.New(io.Discard, "", 0)
	server.MaxRecipients, server.MaxMessageBytes = maxRecipients, maxBody
	server.AllowInsecureAuth, server.EnableSMTPUTF8 = true, true
	server.ReadTimeout, server.WriteTimeout = 2*time.Minute, time.Minute
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(s.door(listener)); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve mail: %w", err)
	}
	return nil
}

// mailer is a connection.
type mailer struct {
	sink *Sink
	ctx  context.Context
	conn net.Conn
	mail *Request // nil between mails
	to   int      // number of its recipients
}

// AuthMechanisms implements smtp.AuthSession.
func (m *mailer) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth implements smtp.AuthSession.
func (m *mailer) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(string, string, string) error { return nil }), nil
}

// Mail implements smtp.Session.
func (m *mailer) Mail(from string, _ *smtp.MailOptions) error {
	m.Reset()
	m.mail, m.to = &Request{At: time.Now(), Method: mailMethod, Path: from + " ->"}, 0
	m.sink.count.arrived(m.mail.At)
	return nil
}

// Rcpt implements smtp.Session.
func (m *mailer) Rcpt(to string, _ *smtp.RcptOptions) error {
	switch m.to++; {
	case m.to <= shownRecipients:
		m.mail.Path += " " + to
	case m.to == shownRecipients+1:
		m.mail.Path += " ..."
	}
	return nil
}

// Data implements smtp.Session.
func (m *mailer) Data(r io.Reader) error {
	q := *m.mail
	m.mail = nil
	head := make([]byte, maxHeader)
	n, _ := io.ReadFull(r, head) // a short mail is fine
	rest, err := io.Copy(io.Discard, r)
	q.describe(head[:n])
	q.Bytes = int64(n) + rest
	if err != nil {
		q.Answer = Dropped // interrupted
		if tooLarge := (*smtp.SMTPError)(nil); errors.As(err, &tooLarge) {
			q.Answer = codes(tooLarge)
		}
		m.sink.show(q)
		return err
	}
	failed := m.sink.failure()
	switch m.sink.settle(m.ctx, q, accepted, codes(failed), m.hang) {
	case accepted:
		return nil
	case "":
		_ = m.conn.Close()
	}
	return failed
}

// hang waits until either side closes the connection.
func (m *mailer) hang() {
	_ = m.conn.SetReadDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, m.conn)
}

// Reset implements smtp.Session. A mail without a text counts as dropped.
func (m *mailer) Reset() {
	if m.mail != nil {
		m.mail.Answer = Dropped
		m.sink.show(*m.mail)
		m.mail = nil
	}
}

// Logout implements smtp.Session.
func (m *mailer) Logout() error {
	m.Reset()
	return nil
}

// describe sets the Message-ID, subject and text from the beginning of a mail.
func (q *Request) describe(head []byte) {
	q.Body = string(head[:min(len(head), maxShownBody)])
	parsed, err := mail.ReadMessage(bytes.NewReader(head))
	if err != nil {
		return
	}
	q.ID = strings.Trim(parsed.Header.Get("Message-Id"), "<> ")
	subject := parsed.Header.Get("Subject")
	if decoded, err := new(mime.WordDecoder).DecodeHeader(subject); err == nil {
		subject = decoded
	}
	text := make([]byte, maxShownBody)
	n, _ := io.ReadFull(parsed.Body, text)
	q.Body = strings.TrimSpace(subject + "\n" + string(text[:n]))
	q.Body = q.Body[:min(len(q.Body), maxShownBody)]
}

// failure returns the SMTP error that is closest to the status of failures.
func (s *Sink) failure() *smtp.SMTPError {
	again := ""
	if s.o.RetryAfter > 0 {
		again = fmt.Sprintf(", try again in %d seconds", s.retrySeconds())
	}
	switch {
	case s.o.Status == 429:
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 2}, Message: "Slow down" + again}
	case s.o.Status >= 500:
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "Failed for now" + again}
	case s.o.Status >= 400:
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "Refused"}
	}
	return &smtp.SMTPError{Code: 250, EnhancedCode: smtp.EnhancedCode{2, 0, 0}, Message: "OK"}
}

// codes returns the codes of a reply, such as 451 4.3.2.
func codes(e *smtp.SMTPError) string {
	c := e.EnhancedCode
	return fmt.Sprintf("%d %d.%d.%d", e.Code, c[0], c[1], c[2])
}
