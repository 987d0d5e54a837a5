package smtptarget

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
)

const (
	// prepareTimeout limits dialing, TLS and login together.
	prepareTimeout = 30 * time.Second
	quitTimeout    = 2 * time.Second

	// maxAnswers limits the bytes read while a connection is made, and in a transaction: answers of 512 bytes to 100
	// recipients.
	maxAnswers = 64 << 10
)

var errTalkative = fmt.Errorf("the server answered more than %d bytes", maxAnswers)

// wire is a connection beneath TLS with a limit of bytes to read.
type wire struct {
	net.Conn
	left atomic.Int64
}

func (w *wire) Read(b []byte) (int, error) {
	left := w.left.Load()
	if left <= 0 {
		return 0, errTalkative
	}
	n, err := w.Conn.Read(b[:min(int64(len(b)), left)])
	w.left.Add(-int64(n))
	return n, err
}

// begin sets the limits of bytes and time for the next step.
func (w *wire) begin(until time.Time) {
	w.left.Store(maxAnswers)
	_ = w.SetDeadline(until) // on a closed connection it fails, as will the next step
}

// interrupt ends the current step.
func (w *wire) interrupt() { _ = w.SetDeadline(time.Unix(1, 0)) }

// conn is a connection that is logged in.
type conn struct {
	wire   *wire
	client *smtp.Client
	used   time.Time   // when it was last known to be alive
	dirty  bool        // an unfinished transaction must be reset
	idle   *time.Timer // closes the connection while it is idle
}

// login is a server and credentials. Equal logins share connections.
type login struct {
	host, username, password string
	port                     int
	tls, mechanism, helo     string
	hidden                   string // the secrets that the password refers to, with a zero byte between them
}

func (k *login) address() string { return net.JoinHostPort(k.host, strconv.Itoa(k.port)) }

// connect returns a connection that is ready for MAIL FROM. Its error is an *unprepared.
func (k *login) connect(ctx context.Context, dial dialer, trust *tls.Config) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	plain, err := dial(ctx, "tcp", k.address())
	if err != nil {
		return nil, &unprepared{step: "connecting to " + k.address(), err: err}
	}
	w := &wire{Conn: plain}
	until, _ := ctx.Deadline()
	w.begin(until)
	defer context.AfterFunc(ctx, w.interrupt)()
	c, failed := k.prepare(ctx, w, trust)
	if failed == nil {
		return c, nil
	}
	_ = plain.Close()
	if ctx.Err() != nil {
		failed.err = interrupted(ctx, failed.err)
	}
	return nil, failed
}

func (k *login) prepare(ctx context.Context, w *wire, trust *tls.Config) (*conn, *unprepared) {
	failed := func(step string, err error) *unprepared { return &unprepared{step, k.clean(err)} }
	var secured net.Conn = w
	if k.tls == ImplicitTLS {
		t := tls.Client(w, k.config(trust))
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, failed("TLS with "+k.address(), err)
		}
		secured = t
	}
	client, err := smtp.NewClient(secured, k.host)
	if err != nil {
		return nil, failed("the greeting of "+k.address(), err)
	}
	if err := client.Hello(k.name()); err != nil {
		return nil, failed("EHLO to "+k.address(), err)
	}
	if k.tls == StartTLS || k.tls == Opportunistic {
		has, _ := client.Extension("STARTTLS")
		if !has && k.tls == StartTLS {
			return nil, failed("STARTTLS with "+k.address(), errors.New(
				"the server does not offer it; set deliver.smtp.tls to implicit if it has a port for that, or to none if nobody "+
					"can listen in",
			))
		}
		if has {
			if err := client.StartTLS(k.config(trust)); err != nil {
				return nil, failed("STARTTLS with "+k.address(), err)
			}
		}
	}
	if k.password != "" {
		if err := k.auth(client); err != nil {
			return nil, failed(fmt.Sprintf("login to %s as %q", k.address(), k.username), err)
		}
	}
	return &conn{wire: w, client: client, used: time.Now()}, nil
}

func (k *login) config(trust *tls.Config) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if trust != nil {
		config = trust.Clone()
	}
	config.ServerName = k.host
	// Opportunistic TLS (RFC 7435) protects against listeners only. Nothing is sent over it that would not be sent in
	// the clear otherwise.
	config.InsecureSkipVerify = config.InsecureSkipVerify || k.tls == Opportunistic
	return config
}

func (k *login) name() string {
	if k.helo != "" {
		return k.helo
	}
	if name, err := os.Hostname(); err == nil && isHost(name) {
		return name
	}
	return "localhost"
}

func (k *login) auth(client *smtp.Client) error {
	_, offered := client.Extension("AUTH")
	has := func(mechanism string) bool {
		for o := range strings.FieldsSeq(offered) {
			if strings.EqualFold(o, mechanism) {
				return true
			}
		}
		return false
	}
	mechanism := k.mechanism
	for _, m := range []string{Plain, Login, CRAMMD5} {
		if mechanism == Auto && has(m) {
			mechanism = m
		}
	}
	switch {
	case offered == "":
		return errors.New(
			"the server offers no login here; leave out deliver.smtp.username and password if it needs none, or see " +
				"deliver.smtp.tls and port",
		)
	case !has(mechanism):
		wanted := strings.Replace(mechanism, Auto, "plain, login or cram-md5", 1)
		return fmt.Errorf("the server does not offer %s, but %s; see deliver.smtp.mechanism", wanted, excerpt(offered))
	}
	clear := isLoopback(k.host) // otherwise go-mail requires TLS, too
	switch mechanism {
	case Plain:
		return client.Auth(smtp.PlainAuth("", k.username, k.password, k.host, clear))
	case Login:
		return client.Auth(smtp.LoginAuth(k.username, k.password, k.host, clear))
	}
	return client.Auth(smtp.CRAMMD5Auth(k.username, k.password))
}

// hider returns a Hider of the password, for answers that repeat what they were sent.
func (k *login) hider() *secrets.Hider {
	if k.password == "" {
		return secrets.NewHider()
	}
	return secrets.NewHider(append(strings.Split(k.hidden, "\x00"), "\x00"+k.username+"\x00"+k.password, k.password)...)
}

func (k *login) hide(text string) string { return k.hider().Hide(text) }

// clean returns an error that may be kept and shown: a quoted answer is shortened, and secrets in it are hidden.
func (k *login) clean(err error) error {
	var r *textproto.Error
	if errors.As(err, &r) {
		return &textproto.Error{Code: r.Code, Msg: k.hide(r.Msg)}
	}
	var odd textproto.ProtocolError
	if errors.As(err, &odd) {
		return errors.New("the server does not speak SMTP: " + excerpt(k.hide(string(odd))))
	}
	return err
}

// unprepared is why there is no connection. Nothing of a job was sent.
type unprepared struct {
	step string
	err  error
}

func (u *unprepared) Error() string {
	text := u.err.Error()
	var r *textproto.Error
	if errors.As(u.err, &r) {
		text = "the server answered " + replyOf(r).String()
		switch r.Code {
		case 530, 534, 535, 538:
			text += "; check deliver.smtp.username, password and mechanism"
		}
	}
	var unknown *tls.CertificateVerificationError
	if errors.As(u.err, &unknown) {
		text += "; the certificate must be valid for deliver.smtp.host"
	}
	return u.step + ": " + text
}

func (u *unprepared) Unwrap() error { return u.err }

// mark converts an unprepared to an error for the drainer: the target throttles, or is down.
func (u *unprepared) mark(p *pool) error {
	var r *textproto.Error
	if errors.As(u.err, &r) && replyOf(r).judge(beforeMail) == throttled {
		return drain.ThrottledBy(u, p.spare(r.Msg))
	}
	return drain.Down(u)
}

// alive reports whether the server has neither closed the connection nor sent anything unasked.
func (c *conn) alive() bool {
	return c.client.Text.R.Buffered() == 0 && silent(c.wire.Conn)
}

// reset checks that the server answers, and ends an open transaction.
func (c *conn) reset(ctx context.Context) bool {
	c.wire.begin(time.Now().Add(prepareTimeout))
	defer context.AfterFunc(ctx, c.wire.interrupt)()
	if err := c.client.Reset(); err != nil {
		return false
	}
	c.dirty, c.used = false, time.Now()
	return true
}

// quit says QUIT, as RFC 5321 asks, and closes the connection.
func (c *conn) quit() {
	c.wire.begin(time.Now().Add(quitTimeout))
	_ = c.client.Quit() // the connection is closed in any case
	_ = c.wire.Close()
}
