package deploytest

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// startNATSUsers starts a NATS that has the users of nats-users.conf.
func startNATSUsers(t *testing.T) (url func(user string) string) {
	t.Helper()
	t.Setenv("NATS_INGRESS_PASSWORD", "a-of-ingress")
	t.Setenv("NATS_DRAINER_PASSWORD", "a-of-drainer")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "nats-users.conf"), load(t)["nats-users.conf"])
	write(t, filepath.Join(dir, "nats.conf"), fmt.Sprintf(
		"listen: \"127.0.0.1:-1\"\nmax_payload: 2MB\njetstream {store_dir: %q}\ninclude ./nats-users.conf\n", t.TempDir(),
	))
	o, err := server.ProcessConfigFile(filepath.Join(dir, "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog = true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("NATS does not start")
	}
	return func(user string) string { return fmt.Sprintf("nats://%s:a-of-%s@%s", user, user, s.Addr()) }
}

// connectNATS connects as a user, as internal/app does.
func connectNATS(t *testing.T, url func(string) string, user string, refused chan<- error) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url(user), nats.CustomInboxPrefix("_INBOX.penstock-"+user),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case refused <- err:
			default:
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func openOverflow(t *testing.T, nc *nats.Conn) *deferred.Stream {
	t.Helper()
	s, err := deferred.NewStream(nc, deferred.Options{MaxBytes: 64 << 20})
	if err == nil {
		err = s.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// With the users of nats-users.conf an ingress puts jobs on the overflow and a drainer brings them back; and neither
// can do what is the other's, or remove what is kept.
func TestNATSUsers(t *testing.T) {
	url := startNATSUsers(t)
	refused := make(chan error, 100)
	ingressConn, drainerConn := connectNATS(t, url, "ingress", refused), connectNATS(t, url, "drainer", refused)
	into, back := openOverflow(t, ingressConn), openOverflow(t, drainerConn)

	engine, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	a, m := deferred.New(engine, into, nil), deferred.NewReadmitter(engine, back)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 4)
	for _, run := range []func(context.Context) error{into.Run, back.Run, a.Run, m.Run} {
		go func() { ended <- run(ctx) }()
	}
	defer func() {
		cancel()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}()

	spec, err := queue.ParseSpec([]byte(`{"name":"slow","rate":"1/h","capacity":1,"overflow":"defer"}`))
	if err == nil {
		_, err = engine.Put(ctx, spec, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		got, err := a.Append(ctx, []queue.Job{{Queue: "slow", ID: id, Payload: []byte("1")}})
		if err != nil || got[0].Outcome != queue.Accepted {
			t.Fatalf("%s: %v %v", id, got, err)
		}
	}
	spec.Capacity = 10
	if _, err := engine.Put(ctx, spec, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the job is back in its queue", func() bool {
		info, err := engine.Get(ctx, "slow")
		return err == nil && info.Waiting == 2 && info.Deferred == 0
	})
	js, err := jetstream.New(ingressConn)
	if err != nil {
		t.Fatal(err)
	}
	// What is no job goes to the dead letters.
	if _, err := js.Publish(ctx, "penstock.deferred.slow", []byte("no job")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{"PENSTOCK_DEFERRED": 0, "PENSTOCK_DEAD": 1} {
		await.Until(t, fmt.Sprintf("%s has %d messages", name, want), func() bool {
			kept, err := js.Stream(ctx, name)
			return err == nil && kept.CachedInfo().State.Msgs == want
		})
	}
	select {
	case err := <-refused:
		t.Errorf("refused in what they are to do: %v", err)
	default:
	}

	for _, row := range []struct{ who, subject string }{
		{"ingress", "$JS.API.DIRECT.GET.PENSTOCK_DEFERRED"},
		{"ingress", "$JS.API.STREAM.MSG.GET.PENSTOCK_DEFERRED"},
		{"ingress", "$JS.API.STREAM.PURGE.PENSTOCK_DEFERRED"},
		{"ingress", "$JS.API.STREAM.DELETE.PENSTOCK_DEFERRED"},
		{"ingress", "$JS.API.STREAM.MSG.DELETE.PENSTOCK_DEFERRED"},
		{"ingress", "$JS.API.CONSUMER.CREATE.PENSTOCK_DEFERRED"},
		{"ingress", "penstock.dead.slow"},
		{"drainer", "penstock.deferred.slow"},
		{"drainer", "$JS.API.STREAM.DELETE.PENSTOCK_DEFERRED"},
		{"drainer", "$JS.API.STREAM.UPDATE.PENSTOCK_DEFERRED"},
		{"drainer", "$JS.API.STREAM.PURGE.PENSTOCK_DEAD"},
		{"drainer", "$JS.API.STREAM.DELETE.PENSTOCK_DEAD"},
		{"drainer", "other"},
	} {
		said := make(chan error, 1)
		nc := connectNATS(t, url, row.who, said)
		if err := nc.Publish(row.subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := nc.FlushTimeout(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-said:
			if err == nil {
				t.Error("NATS says nothing")
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s may publish to %s", row.who, row.subject)
		}
		nc.Close()
	}
	for user, other := range map[string]string{"ingress": "drainer", "drainer": "ingress"} {
		for _, subject := range []string{"_INBOX.>", ">", "_INBOX.penstock-" + other + ".>", "penstock.deferred.>"} {
			said := make(chan error, 1)
			nc := connectNATS(t, url, user, said)
			if _, err := nc.Subscribe(subject, func(*nats.Msg) {}); err != nil {
				t.Fatal(err)
			}
			if err := nc.FlushTimeout(5 * time.Second); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-said:
				if err == nil {
					t.Error("NATS says nothing")
				}
			case <-time.After(5 * time.Second):
				t.Errorf("%s may read %s", user, subject)
			}
			nc.Close()
		}
	}
}
