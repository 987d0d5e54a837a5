package natsserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func publish(t *testing.T, nc *nats.Conn, replicas int) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{
		Name: "S", Subjects: []string{"s"}, Replicas: replicas,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s", []byte("kept")); err != nil {
		t.Fatal(err)
	}
}

func kept(t *testing.T, nc *nats.Conn, want uint64) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().State.Msgs; got != want {
		t.Errorf("%d messages, want %d", got, want)
	}
}

// Without a listener nobody but this process gets in, and what it stored is there after a restart.
func TestInProcess(t *testing.T) {
	s, err := Start(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "nats")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if s.URL() != "" || s.srv.Addr() != nil {
		t.Errorf("listens on %s %v", s.URL(), s.srv.Addr())
	}
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if nc.MaxPayload() != MaxPayload {
		t.Errorf("max payload %d", nc.MaxPayload())
	}
	publish(t, nc, 1)
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); !nc.IsConnected(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("did not reconnect")
		}
	}
	kept(t, nc, 1)
}

func TestListens(t *testing.T) {
	s, err := Start(t.Context(), Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", LazySync: true, MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	url := s.URL()
	s.Stop()
	if nc, err := nats.Connect(url); err == nil {
		nc.Close()
		t.Error("serves though stopped")
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.URL() != url {
		t.Errorf("moved from %s to %s", url, s.URL())
	}
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	publish(t, nc, 1)
	kept(t, nc, 1)
}

// A cluster goes on without one node, whichever leads, and takes it back.
func TestCluster(t *testing.T) {
	c, err := StartCluster(t.Context(), 3, Options{Dir: t.TempDir(), LazySync: true, MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	nc, err := c.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	publish(t, nc, 3)
	leader := c.Leader("S")
	if leader == nil {
		t.Fatal("nobody leads")
	}
	leader.Stop()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(60 * time.Second); ; {
		if _, err := js.Publish(t.Context(), "s", []byte("kept")); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if err := leader.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		o          Options
	}{
		{"no directory", "no directory", Options{}},
		{"a file", file, Options{Dir: file}},
		{"negative", "must not be negative", Options{Dir: t.TempDir(), MaxStore: -1}},
		{"no port", "listen", Options{Dir: t.TempDir(), Listen: "localhost"}},
		{"bad port", "no valid port", Options{Dir: t.TempDir(), Listen: "localhost:http"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Start(t.Context(), c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q in it", err, c.want)
			}
			if s != nil {
				t.Error("a server with an error")
			}
		})
	}
}
