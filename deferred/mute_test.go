package deferred

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/penstock/penstock/internal/test/await"
)

// While the connection is re-established to a NATS that never responds, callers learn at once that nothing can be
// deferred, although the client would block them.
func TestMuteNATS(t *testing.T) {
	server := startNATS(t)
	s := openStream(t, connect(t, server.URL(), nats.Timeout(time.Hour)), Options{})
	noError(t, s.Put(t.Context(), itemsFor("a", []string{"1"})))
	server.Stop()
	ln, err := net.Listen("tcp", strings.TrimPrefix(server.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan net.Conn, 1)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		if c, err := ln.Accept(); err == nil {
			came <- c
		}
	})
	c := <-came
	t.Cleanup(func() { _ = c.Close(); _ = ln.Close(); accepting.Wait() })

	answered := make(chan struct{})
	go func() {
		defer close(answered)
		await.Until(t, "it is known", func() bool { return s.Connected() != nil })
		if err := s.Put(t.Context(), itemsFor("a", []string{"2"}))[0]; !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		if st := s.Status(); st.Connected {
			t.Errorf("%+v", st)
		}
	}()
	select {
	case <-answered:
	case <-time.After(deadline):
		t.Error("no answer while the connection is being made")
	}
}
