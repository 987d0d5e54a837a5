package natstarget_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/deliver/natstarget"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate is open, or says that it is too late.
type gate struct{ err error }

func (g gate) Wait(context.Context) error { return g.err }
func (g gate) Closes() time.Time          { return time.Now().Add(time.Minute) }

type rig struct {
	*testing.T
	server *natsserver.Server
	nc     *nats.Conn
	js     jetstream.JetStream
	sender *natstarget.Sender
}

func start(t *testing.T) *rig {
	t.Helper()
	s, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", MaxPayload: 4096})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	nc, err := nats.Connect(
		s.URL(), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, s, nc, js, natstarget.New(natstarget.Options{Conn: nc, Prefix: "jobs"})}
}

func (r *rig) stream(c jetstream.StreamConfig) jetstream.Stream {
	r.Helper()
	s, err := r.js.CreateStream(r.Context(), c)
	if err != nil {
		r.Fatal(err)
	}
	return s
}

func job(payload string) *drain.Job {
	return &drain.Job{Spec: &queue.Spec{}, Reservation: queue.Reservation{Attempt: 2, Job: queue.Job{
		Queue: "mail", ID: "j1", Lane: "acme", Payload: []byte(payload), ContentType: "text/plain",
		Headers: map[string]string{"Traceparent": "00-1"},
	}}}
}

func target(subject, mode string) *natstarget.Target {
	t := natstarget.Default()
	t.Subject, t.Mode = subject, mode
	return t
}

func (r *rig) deliver(j *drain.Job, t *natstarget.Target) error {
	return r.sender.Deliver(r.Context(), j, gate{}, t)
}

// closed is a gate that closed while this process stood still behind it.
type closed struct{ gate }

func (closed) Closes() time.Time { return time.Now().Add(-time.Second) }

func TestGateClosed(t *testing.T) {
	r := start(t)
	heard, err := r.nc.SubscribeSync("jobs.sent")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.sender.Deliver(
		t.Context(), job("late"), closed{}, target("sent", natstarget.Core),
	); !errors.Is(err, drain.ErrLate) {
		t.Errorf("%v", err)
	}
	if err := r.deliver(job("next"), target("sent", natstarget.Core)); err != nil {
		t.Fatal(err)
	}
	if m, err := heard.NextMsg(10 * time.Second); err != nil || string(m.Data) != "next" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestCoreReachesThoseWhoListen(t *testing.T) {
	r := start(t)
	heard, err := r.nc.SubscribeSync("jobs.sent.*")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.deliver(job("hello"), target("sent.{lane}", natstarget.Core)); err != nil {
		t.Fatal(err)
	}
	m, err := heard.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if m.Subject != "jobs.sent.acme" || string(m.Data) != "hello" {
		t.Errorf("%s: %s", m.Subject, m.Data)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/plain", "Traceparent": "00-1", setting.HeaderID: "j1", setting.HeaderQueue: "mail",
		setting.HeaderAttempt: "2", jetstream.MsgIDHeader: "",
	} {
		if got := m.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// A message that is published again is stored once.
func TestJetStreamKnowsTheJob(t *testing.T) {
	r := start(t)
	s := r.stream(jetstream.StreamConfig{Name: "MAIL", Subjects: []string{"jobs.sent"}})
	to := target("sent", natstarget.JetStream)
	to.Stream = "MAIL"
	stored := func(j *drain.Job) uint64 {
		t.Helper()
		for range 3 {
			if err := r.deliver(j, to); err != nil {
				t.Fatal(err)
			}
		}
		info, err := s.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Msgs
	}
	j := job("hello")
	if n := stored(j); n != 1 {
		t.Errorf("%d messages", n)
	}
	j.AppendedAt = j.AppendedAt.Add(time.Second) // its id was forgotten, and is another job's now
	if n := stored(j); n != 2 {
		t.Errorf("%d messages of two jobs", n)
	}
}

func TestWhatNATSSays(t *testing.T) {
	for _, c := range []struct {
		name  string
		with  func(*rig) (*drain.Job, *natstarget.Target)
		want  queue.Verdict
		says  string
		later bool
	}{
		{"no stream has the subject", func(*rig) (*drain.Job, *natstarget.Target) {
			return job("x"), target("sent", natstarget.JetStream)
		}, queue.Down, "no stream has this subject", false},
		{"it is another stream's", func(r *rig) (*drain.Job, *natstarget.Target) {
			r.stream(jetstream.StreamConfig{Name: "MAIL", Subjects: []string{"jobs.sent"}})
			to := target("sent", natstarget.JetStream)
			to.Stream = "OTHER"
			return job("x"), to
		}, queue.Down, "the stream OTHER does not have the subject", false},
		{"the stream is full", func(r *rig) (*drain.Job, *natstarget.Target) {
			r.stream(jetstream.StreamConfig{
				Name: "MAIL", Subjects: []string{"jobs.sent"}, MaxMsgs: 1, Discard: jetstream.DiscardNew,
			})
			if _, err := r.js.Publish(r.Context(), "jobs.sent", nil); err != nil {
				r.Fatal(err)
			}
			return job("x"), target("sent", natstarget.JetStream)
		}, queue.Throttle, "maximum messages exceeded", true},
		{"the stream takes no message so long", func(r *rig) (*drain.Job, *natstarget.Target) {
			r.stream(jetstream.StreamConfig{Name: "MAIL", Subjects: []string{"jobs.sent"}, MaxMsgSize: 1000})
			return job(strings.Repeat("x", 2000)), target("sent", natstarget.JetStream)
		}, queue.Bury, "message size exceeds", false},
		{"NATS takes no message so long", func(*rig) (*drain.Job, *natstarget.Target) {
			return job(strings.Repeat("x", 5000)), target("sent", natstarget.Core)
		}, queue.Bury, "the limit of this NATS is 4096", false},
		{"the lane is no token", func(*rig) (*drain.Job, *natstarget.Target) {
			j := job("x")
			j.Lane = ">"
			return j, target("{lane}", natstarget.Core)
		}, queue.Bury, "cannot be part of the subject", false},
		{"NATS is away", func(r *rig) (*drain.Job, *natstarget.Target) {
			gone := r.nc.StatusChanged(nats.RECONNECTING)
			r.server.Stop()
			<-gone
			return job("x"), target("sent", natstarget.JetStream)
		}, queue.Down, "not connected", false},
		{"nobody answers", func(r *rig) (*drain.Job, *natstarget.Target) {
			// Somebody hears it who is no stream.
			if _, err := r.nc.SubscribeSync("jobs.sent"); err != nil {
				r.Fatal(err)
			}
			to := target("sent", natstarget.JetStream)
			to.Timeout = unit.Duration(2 * time.Second) // it has to be sent within it
			return job("x"), to
		}, queue.Hold, "deadline exceeded", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t)
			j, to := c.with(r)
			err := r.sender.Deliver(t.Context(), j, gate{}, to)
			said := drain.What(err)
			if said.Verdict != c.want || !strings.Contains(errText(err), c.says) {
				t.Errorf("%v (%v), want %v saying %q", said.Verdict, err, c.want, c.says)
			}
			if said.Until.After(time.Now()) != c.later {
				t.Errorf("until %v", said.Until)
			}
			if said.Trouble != (c.want == queue.Hold) {
				t.Errorf("trouble: %v", said.Trouble)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A job whose answer is not waited for any more may be out: it is not just given back.
func TestInterrupted(t *testing.T) {
	r := start(t)
	heard, err := r.nc.SubscribeSync("jobs.sent") // somebody hears it who is no stream, and does not answer
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancelCause(t.Context())
	answer := make(chan error, 1)
	go func() { answer <- r.sender.Deliver(ctx, job("x"), gate{}, target("sent", natstarget.JetStream)) }()
	if _, err := heard.NextMsg(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	interrupt(drain.ErrStopping)
	if err := <-answer; drain.What(err).Verdict != queue.Hold || !errors.Is(err, drain.ErrStopping) ||
		drain.What(err).Trouble {
		t.Errorf("%+v: %v", drain.What(err), err)
	}
}

// Behind a gate that refuses nothing is published.
func TestTooLateIsNotPublished(t *testing.T) {
	r := start(t)
	heard, err := r.nc.SubscribeSync("jobs.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.sender.Deliver(
		t.Context(), job("x"), gate{drain.ErrLate}, target("sent", natstarget.Core),
	); !errors.Is(err, drain.ErrLate) {
		t.Errorf("%v", err)
	}
	if err := r.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := heard.Pending(); n != 0 || err != nil {
		t.Errorf("%d messages, %v", n, err)
	}
}

// The app in a subject is the one that has the queue, whatever the job says, and nothing is published while nobody
// knows which that is.
func TestSubjectsOfApps(t *testing.T) {
	r := start(t)
	heard, err := r.nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	owner, unread := "acme", error(nil)
	to := natstarget.New(natstarget.Options{Conn: r.nc, Prefix: "jobs.{app}", App: func(name string) (string, error) {
		if name != "mail" {
			t.Errorf("asked for %s", name)
		}
		return owner, unread
	}})
	publish := func(s *natstarget.Sender, subject, want string) {
		t.Helper()
		j := job("x")
		j.App = "forged"
		if err := s.Deliver(t.Context(), j, gate{}, target(subject, natstarget.Core)); err != nil {
			t.Fatal(err)
		}
		if m, err := heard.NextMsg(10 * time.Second); err != nil || m.Subject != want {
			t.Errorf("%+v, %v; want %s", m, err, want)
		}
	}
	publish(to, "sent.{lane}", "jobs.acme.sent.acme")
	publish(to, "{queue}.{app}.{app}", "jobs.acme.mail.acme.acme")
	owner = rules.OperatorApp
	publish(to, "sent", "jobs.-.sent")
	publish(r.sender, "{app}.sent", "jobs.-.sent") // it was not told of apps
	unread = errors.New("not read yet")
	err = to.Deliver(t.Context(), job("x"), gate{}, target("sent", natstarget.Core))
	if drain.What(err).Verdict != queue.Down ||
		!strings.Contains(errText(err), "{app} in the subject jobs.{app}.sent: not read") {
		t.Errorf("%v", err)
	}
}

// Drainers that were given no NATS, or no prefix, say what is missing, and burn no attempt.
func TestNotConfigured(t *testing.T) {
	r := start(t)
	for _, c := range []struct {
		o    natstarget.Options
		says string
	}{
		{natstarget.Options{}, "--publish-nats"},
		{natstarget.Options{Conn: r.nc}, "--publish-prefix"},
		{natstarget.Options{Conn: r.nc, Prefix: "$JS"}, "--publish-prefix"},
	} {
		err := natstarget.New(c.o).Deliver(t.Context(), job("x"), gate{}, target("sent", natstarget.Core))
		if drain.What(err).Verdict != queue.Down || !strings.Contains(errText(err), c.says) {
			t.Errorf("%v, want %s", err, c.says)
		}
	}
}
