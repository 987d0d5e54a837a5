package deferred

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/transcript"
	"github.com/penstock/penstock/queue"
)

// persistent is a connection that begins without a server, and never gives up.
func persistent(t testing.TB, url string) *nats.Conn {
	t.Helper()
	return connect(
		t, url, nats.RetryOnFailedConnect(true), nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	)
}

// NATS is away at the start: deferrable jobs are definitely refused, and the way back waits. When NATS comes,
// everything continues by itself.
func TestOpenLater(t *testing.T) {
	nats := startNATS(t)
	url := nats.URL()
	nats.Stop()
	r := &rig{seen: newSeen()}
	r.Engine, r.clock = newBolt(t)
	var err error
	if r.stream, err = NewStream(persistent(t, url), Options{Observer: r.seen, Logger: logTo(t)}); err != nil {
		t.Fatal(err)
	}
	if err := r.stream.Put(t.Context(), itemsFor("a", []string{"1"}))[0]; !errors.Is(err, ErrUnavailable) ||
		errors.Is(err, queue.ErrOutcomeUnknown) {
		t.Errorf("before Run: %v", err)
	}
	if err := r.stream.Open(t.Context()); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnfit) {
		t.Errorf("opened without NATS: %v", err)
	}
	start(t, r.stream.Run)
	runReadmitter(t, r.readmitter())
	putSpec(t, r, specFor("a", 2))
	a := newAppender(t, r, r.stream)
	if n := defers(t, a, "a", []string{"1", "2"}); n != 0 {
		t.Errorf("%d deferred, and there was room", n)
	}
	if x := one(t, a, job("a", "3")); x.Outcome != queue.Failed || !errors.Is(x.Err, ErrUnavailable) ||
		errors.Is(x.Err, queue.ErrOutcomeUnknown) {
		t.Errorf("%+v", x)
	}
	if st := r.stream.Status(); st.Open || st.Connected || st.Err == nil || r.stream.Connected() == nil {
		t.Errorf("%+v", st)
	}
	if err := nats.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the overflow is open", func() bool { return r.stream.Connected() == nil })
	if st := r.stream.Status(); !st.Open || !st.Connected || st.Err != nil {
		t.Errorf("%+v", st)
	}
	ids := numbered(20)
	if n := defers(t, a, "a", ids); n != 20 {
		t.Errorf("%d deferred", n)
	}
	if got := leave(t, r, 22); fmt.Sprint(got[2:]) != fmt.Sprint(ids) {
		t.Errorf("%v", got)
	}
	r.idle(t, "a")
}

// A stream that turns out unfit when NATS comes is reported once, and used when it is fixed.
func TestUnfitLater(t *testing.T) {
	server := startNATS(t)
	nc := persistent(t, server.URL())
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	o, err := Options{MaxBytes: 8 << 20}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	config, _ := settings(o)
	config.MaxAge = time.Hour
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	await.Until(t, "disconnected", func() bool { return !nc.IsConnected() })
	log := &transcript.Buffer{}
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	s, err := NewStream(nc, o)
	if err != nil {
		t.Fatal(err)
	}
	s.unfitPause, s.awayPause = 10*time.Millisecond, 10*time.Millisecond
	start(t, s.Run)
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	looked := func() int { return strings.Count(log.Tail(4000), "fix NATS or the settings") }
	await.Until(t, "it is told", func() bool {
		return s.Connected() != nil && strings.Contains(s.Connected().Error(), "max_age is 1h0m0s") && looked() > 0
	})
	if err := s.Put(t.Context(), itemsFor("a", []string{"1"}))[0]; !errors.Is(err, ErrUnavailable) ||
		errors.Is(err, queue.ErrOutcomeUnknown) {
		t.Error(err)
	}
	if err := s.Open(t.Context()); !errors.Is(err, ErrUnfit) {
		t.Error(err)
	}
	first := s.unopened.Load()
	await.Until(t, "it is looked at again", func() bool { return s.unopened.Load() != first })
	config.MaxAge = 0
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is open", func() bool { return s.Connected() == nil })
	noError(t, s.Put(t.Context(), itemsFor("a", []string{"1"})))
	await.Until(t, "it is told", func() bool { return strings.Contains(log.Tail(4000), "the overflow is open") })
	if looked() != 1 {
		t.Errorf("told %d times:\n%s", looked(), log.Tail(4000))
	}
}

// guarded is a NATS that asks who comes.
func guarded(t *testing.T, users ...*server.User) (*server.Server, *server.Options) {
	t.Helper()
	o := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		JetStreamMaxStore: 20 << 30, JetStreamMaxMemory: 1 << 20, Users: users,
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	await.Until(t, "NATS serves", func() bool { return s.ReadyForConnections(50 * time.Millisecond) })
	return s, o
}

// A refused login is retried forever and reported.
func TestRefusedLogin(t *testing.T) {
	guard, o := guarded(t, &server.User{Username: "penstock", Password: "old"})
	url := strings.Replace(guard.ClientURL(), "nats://", "nats://penstock:new@", 1)
	s, err := NewStream(persistent(t, url), Options{Logger: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	start(t, s.Run)
	await.Until(t, "the refusal is told", func() bool {
		err := s.Connected()
		return err != nil && strings.Contains(err.Error(), "Authorization Violation")
	})
	await.Until(
		t, "it is known that waiting mends nothing", func() bool { return errors.Is(s.Open(t.Context()), ErrUnfit) },
	)
	changed := o.Clone()
	changed.Port = guard.Addr().(*net.TCPAddr).Port
	changed.Users = []*server.User{{Username: "penstock", Password: "new"}}
	if err := guard.ReloadOptions(changed); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is open", func() bool { return s.Connected() == nil })
}

// Waiting does not fix a missing permission of the account, either.
func TestNotAllowed(t *testing.T) {
	guard, _ := guarded(t, &server.User{
		Username: "penstock", Password: "x",
		Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"penstock.>"}}},
	})
	s, err := NewStream(persistent(t, strings.Replace(guard.ClientURL(), "nats://", "nats://penstock:x@", 1)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is told", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.Open(ctx)
		return errors.Is(err, ErrUnfit) && strings.Contains(strings.ToLower(err.Error()), "permissions violation")
	})
}

// Calls that a cluster refuses while too few of its nodes are up succeed by waiting.
func TestJudge(t *testing.T) {
	s := newStream(t)
	for err, fatal := range map[error]bool{
		&jetstream.APIError{Code: 503, ErrorCode: 10008, Description: "JetStream system temporarily unavailable"}:    false,
		&jetstream.APIError{Code: 400, ErrorCode: 10005, Description: "no suitable peers for placement"}:             false,
		&jetstream.APIError{Code: 500, ErrorCode: 10074, Description: "replicas > 1 not supported in non-clustered"}: true,
		&jetstream.APIError{Code: 400, ErrorCode: 10065, Description: "subjects overlap with an existing stream"}:    true,
		&jetstream.APIError{Code: 500, ErrorCode: 10047, Description: "insufficient storage resources available"}:    true,
		context.DeadlineExceeded: false, nats.ErrNoResponders: false, nats.ErrConnectionReconnecting: false,
	} {
		if got := s.judge(fmt.Errorf("asked: %w", err)); errors.Is(got, ErrUnfit) != fatal ||
			errors.Is(got, ErrUnavailable) == fatal || !errors.Is(got, err) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
