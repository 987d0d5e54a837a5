package natstarget

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

const headerContentType = "Content-Type"

// fullPause is how long a queue stops when a stream is full.
const fullPause = 5 * time.Second

// Options are the settings of a Sender.
type Options struct {
	// Conn is a connection that buffers nothing while it is broken (nats.ReconnectBufSize(-1)). The caller closes it. If
	// it is nil, nothing can be published.
	Conn *nats.Conn
	// Prefix is the prefix of all subjects. If it is empty, nothing can be published.
	Prefix string
	// App returns the app of a queue, which replaces {app} in the prefix and in subjects. It is called for each job with
	// such a subject. After an error the target counts as down. Nil means that all queues are the operator's.
	App func(queue string) (string, error)
}

// Sender publishes jobs.
type Sender struct {
	o      Options
	js     jetstream.JetStream
	broken error // why js is nil
}

var (
	errNoConn   = errors.New("the drainers have no NATS to publish to: start them with --publish-nats")
	errOver     = fmt.Errorf("%w: this process was too busy to publish in time", drain.ErrLate)
	errNoPrefix = errors.New("the drainers may not publish: start them with --publish-prefix, the prefix of all subjects")
)

// New returns a Sender. With an invalid prefix (see ValidPrefix) it publishes nothing.
func New(o Options) *Sender {
	s := &Sender{o: o}
	if !ValidPrefix(o.Prefix) {
		s.o.Prefix = ""
	}
	if o.Conn != nil {
		s.js, s.broken = jetstream.New(o.Conn)
	}
	return s
}

// Close does nothing: the caller of New closes the connection.
func (s *Sender) Close() error { return nil }

// Deliver publishes a job; see deliver.Sender.
func (s *Sender) Deliver(ctx context.Context, job *drain.Job, gate drain.Gate, with setting.Setting) error {
	t := with.(*Target)
	if err := s.ready(); err != nil {
		return drain.Down(err)
	}
	m, err := s.message(job, t)
	if err != nil {
		return drain.Permanent(err)
	}
	if m.Subject, err = s.ofApp(m.Subject, job.Queue); err != nil {
		return drain.Down(fmt.Errorf("%s in the subject %s: %w", appToken, m.Subject, err))
	}
	if most := s.o.Conn.MaxPayload(); int64(m.Size()) > most {
		return drain.Permanent(fmt.Errorf("the message has %d bytes, the limit of this NATS is %d", m.Size(), most))
	}
	if err := gate.Wait(ctx); err != nil {
		return err
	}
	if time.Now().After(gate.Closes()) {
		return errOver
	}
	within, cancel := context.WithTimeout(ctx, t.Timeout.D())
	defer cancel()
	if t.Mode == Core {
		err = s.core(within, m)
	} else {
		err = s.stream(within, m, t)
	}
	if err == nil || ctx.Err() == nil {
		return err
	}
	interrupted := fmt.Errorf("interrupted: %w", context.Cause(ctx))
	if drain.What(err).Verdict == queue.Hold { // it may have been published
		return drain.Unknown(interrupted)
	}
	return drain.Unsent(interrupted)
}

func (s *Sender) ready() error {
	switch {
	case s.o.Conn == nil:
		return errNoConn
	case s.o.Prefix == "":
		return errNoPrefix
	case s.broken != nil:
		return s.broken
	case !s.o.Conn.IsConnected():
		if err := s.o.Conn.LastError(); err != nil {
			return fmt.Errorf("not connected to NATS: %w", err)
		}
		return errors.New("not connected to NATS")
	}
	return nil
}

// ofApp replaces {app} in a subject by the app of a queue.
func (s *Sender) ofApp(subject, queueName string) (string, error) {
	if !strings.Contains(subject, appToken) {
		return subject, nil
	}
	app := rules.OperatorApp
	if s.o.App != nil {
		of, err := s.o.App(queueName)
		if err != nil {
			return subject, err
		}
		app = of
	}
	return strings.ReplaceAll(subject, appToken, app), nil
}

func (s *Sender) message(job *drain.Job, t *Target) (*nats.Msg, error) {
	if err := t.Accept(&job.Job); err != nil { // the queue may have had another target when the job was appended
		return nil, err
	}
	subject, _ := t.subject(&job.Job) // Accept has checked it
	m := nats.NewMsg(s.o.Prefix + "." + subject)
	m.Data = job.Payload
	for name, value := range job.Headers {
		m.Header.Set(name, value)
	}
	m.Header.Set(headerContentType, job.ContentType)
	m.Header.Set(setting.HeaderID, job.ID)
	m.Header.Set(setting.HeaderQueue, job.Queue)
	m.Header.Set(setting.HeaderAttempt, strconv.Itoa(job.Attempt))
	if t.Mode == JetStream {
		// The same in each attempt, but not the same as for an earlier job with this ID.
		m.Header.Set(jetstream.MsgIDHeader, job.Queue+"/"+job.ID+"/"+strconv.FormatInt(job.AppendedAt.UnixMicro(), 10))
		if t.Stream != "" {
			m.Header.Set(jetstream.ExpectedStreamHeader, t.Stream)
		}
	}
	return m, nil
}

// core publishes a message and waits until the server has it.
func (s *Sender) core(ctx context.Context, m *nats.Msg) error {
	if err := s.o.Conn.PublishMsg(m); err != nil {
		return drain.Down(fmt.Errorf("publishing to %s: %w", m.Subject, err)) // nothing was written
	}
	if err := s.o.Conn.FlushWithContext(ctx); err != nil {
		return drain.Trouble(drain.Unknown(fmt.Errorf("publishing to %s: NATS did not answer: %w", m.Subject, err)))
	}
	return nil
}

// stream publishes a message and waits until a stream has it.
func (s *Sender) stream(ctx context.Context, m *nats.Msg, t *Target) error {
	_, err := s.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	if err == nil {
		return nil
	}
	failed := fmt.Errorf("publishing to %s: %w", m.Subject, err)
	var refused *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return drain.Down(fmt.Errorf("publishing to %s: no stream has this subject; create one", m.Subject))
	case errors.As(err, &refused):
		return judged(refused, failed, t)
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrConnectionReconnecting):
		return drain.Down(failed)
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject):
		return drain.Permanent(failed)
	}
	// It may have arrived; its message ID keeps it from being stored twice.
	return drain.Trouble(drain.Unknown(failed))
}

// Error codes of JetStream, from errors.json of nats-server.
const (
	codeStoreFailed      = 10077 // the stream is full, or its disk failed
	codeWrongStream      = 10060
	codeMessageTooLarge  = 10054
	codeNoResources      = 10023
	codeStreamOffline    = 10118
	codeNoQuorum         = 10008
	codeAccountResources = 10002
)

// judged converts a refusal of JetStream to an error for the drainer.
func judged(refused *jetstream.APIError, failed error, t *Target) error {
	switch refused.ErrorCode {
	case codeStoreFailed, codeNoResources, codeAccountResources:
		return drain.ThrottledBy(failed, time.Now().Add(fullPause))
	case codeWrongStream:
		return drain.Down(fmt.Errorf("the stream %s does not have the subject: %w", t.Stream, failed))
	case codeMessageTooLarge:
		return drain.Permanent(failed)
	case codeStreamOffline, codeNoQuorum:
		return drain.Down(failed)
	}
	return drain.Trouble(failed)
}
