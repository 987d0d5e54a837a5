package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"sync/atomic"

	"github.com/emersion/go-smtp"
	"github.com/wneessen/go-mail"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// mailbox is an SMTP server that counts and discards mail.
type mailbox struct{ taken atomic.Int64 }

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return m, nil }
func (m *mailbox) Mail(string, *smtp.MailOptions) error        { return nil }
func (m *mailbox) Rcpt(string, *smtp.RcptOptions) error        { return nil }
func (m *mailbox) Reset()                                      {}
func (m *mailbox) Logout() error                               { return nil }

func (m *mailbox) Data(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	m.taken.Add(1)
	return err
}

// smtpServer serves a mailbox on loopback.
func smtpServer(ctx context.Context, m *mailbox) (port int, closeIt func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	s := smtp.NewServer(m)
	s.Domain, s.ErrorLog = "mx.test", log.New(io.Discard, "", 0)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	return l.Addr().(*net.TCPAddr).Port, func() { _ = s.Close(); <-done }, nil
}

const (
	mailConnections = 16
	mailSender      = "shop@example.com"
	mailText        = "Dear customer,\n\nyour parcel has been handed over and will be with you in two days. You need " +
		"not be at home.\n\nKind regards\nYour shop\n"
)

// deliverSMTP sends mail from a queue on Redis; the peer sends the same mail in a loop.
var deliverSMTP = Figure{
	Name: "deliver-smtp", Unit: "mails/s from Redis, 16 kept connections",
	Peer: "go-mail in 16 loops, each on a kept connection",
	Goal: "0.5 x go-mail", Met: func(ours, peer, _ float64) bool { return ours >= 0.5*peer },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		box := &mailbox{}
		port, closeIt, err := smtpServer(ctx, box)
		if err != nil {
			s.Close()
			return Measurements{}, err
		}
		s.close = append(s.close, closeIt)
		count := sized(15_000)
		arrived := func(v float64, err error) (float64, error) {
			if n := box.taken.Swap(0); err == nil && n != int64(count) {
				err = fmt.Errorf("%d of %d mails arrived", n, count)
			}
			return v, err
		}
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				if err := s.again(ctx); err != nil {
					return 0, err
				}
				target := fmt.Appendf(
					nil, `{"smtp": {"host": "127.0.0.1", "port": %d, "tls": "none", "from": %q, "max_connections": %d}}`, port,
					mailSender, mailConnections,
				)
				if _, err := s.engine.Put(
					ctx, queue.Spec{Name: queueName, Rate: leaky.Unlimited, Capacity: queue.MaxCapacity, Deliver: target},
					queue.AnyRevision,
				); err != nil {
					return 0, err
				}
				if err := fillMail(ctx, s.engine, count); err != nil {
					return 0, err
				}
				guard, err := egress.New(egress.Loopback...)
				if err != nil {
					return 0, err
				}
				router := deliver.New(deliver.Options{Egress: guard})
				v, err := deliverFor(ctx, s.engine, router, count, drain.DefaultConcurrency)
				if closed := router.Close(); err == nil {
					err = closed
				}
				return arrived(v, err)
			},
			Peer: func(ctx context.Context) (float64, error) {
				v, err := loopMail(ctx, port, count)
				return arrived(v, err)
			},
			Close: s.Close,
		}, nil
	},
}

func fillMail(ctx context.Context, e queue.Appender, count int) error {
	for left := count; left > 0; left -= coalesce.MaxItems {
		jobs := make([]queue.Job, min(left, coalesce.MaxItems))
		for i := range jobs {
			jobs[i] = queue.Job{Queue: queueName, ID: newID(), Payload: fmt.Appendf(
				nil, `{"from": %q, "to": "ann@example.org", "subject": "Your parcel", "text": %q}`, mailSender, mailText,
			)}
		}
		if err := appendAll(ctx, e, jobs); err != nil {
			return err
		}
	}
	return nil
}

// loopMail sends mail as a program with go-mail would: a client for each loop, dialed once.
func loopMail(ctx context.Context, port, count int) (float64, error) {
	clients := make(chan *mail.Client, mailConnections)
	for range mailConnections {
		c, err := mail.NewClient("127.0.0.1", mail.WithPort(port), mail.WithTLSPolicy(mail.NoTLS))
		if err != nil {
			return 0, err
		}
		if err := c.DialWithContext(ctx); err != nil {
			return 0, err
		}
		defer func() { _ = c.Close() }()
		clients <- c
	}
	return together(ctx, mailConnections, count, func(context.Context) error {
		c := <-clients
		defer func() { clients <- c }()
		m := mail.NewMsg()
		if err := m.From(mailSender); err != nil {
			return err
		}
		if err := m.To("ann@example.org"); err != nil {
			return err
		}
		m.Subject("Your parcel")
		m.SetBodyString(mail.TypeTextPlain, mailText)
		return c.Send(m)
	})
}
