package deferred

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// relay stands between a client and NATS. It can swallow what NATS says, break all connections, and refuse new ones.
type relay struct {
	listener net.Listener
	target   string
	swallows atomic.Bool
	refuses  atomic.Bool
	running  sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
}

func newRelay(t testing.TB, url string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, target: strings.TrimPrefix(url, "nats://"), conns: map[net.Conn]struct{}{}}
	r.running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			r.running.Go(func() { r.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		r.refuses.Store(true)
		r.cut()
		r.running.Wait()
	})
	return r
}

func (r *relay) url() string { return "nats://" + r.listener.Addr().String() }

func (r *relay) serve(client net.Conn) {
	defer client.Close()
	if r.refuses.Load() {
		return
	}
	server, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	r.conns[client], r.conns[server] = struct{}{}, struct{}{}
	r.mu.Unlock()
	r.running.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	b := make([]byte, 64<<10)
	for {
		n, err := server.Read(b)
		if err != nil {
			return
		}
		if r.swallows.Load() {
			continue
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}

// cut breaks all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
	clear(r.conns)
}

// A call whose answer can no longer come, because its connection broke, ends then and not at its timeout.
func TestCallsEndWithTheirConnection(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Stream) error{
		"fetch": func(ctx context.Context, s *Stream) error {
			_, err := s.fetch(ctx, s.subjects.of("a"), 1, 9)
			return err
		},
		"first":  func(ctx context.Context, s *Stream) error { _, err := s.first(ctx, s.subjects.of("a")); return err },
		"count":  func(ctx context.Context, s *Stream) error { _, err := s.count(ctx, s.subjects.of("a")); return err },
		"size":   func(ctx context.Context, s *Stream) error { _, _, err := s.size(ctx); return err },
		"remove": func(ctx context.Context, s *Stream) error { return s.remove(ctx, s.subjects.of("a"), 2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRelay(t, startNATS(t).URL())
			nc := connect(t, r.url())
			s := openStream(t, nc, Options{})
			noError(t, s.Put(t.Context(), itemsFor("a", []string{"1"})))
			r.swallows.Store(true)
			sent := nc.Stats().OutMsgs
			end := make(chan error, 1)
			go func() { end <- call(t.Context(), s) }()
			await.Until(t, "it is asked", func() bool { return nc.Stats().OutMsgs > sent })
			r.refuses.Store(true)
			r.cut()
			await.Until(t, "the connection is broken", func() bool { return !nc.IsConnected() })
			select {
			case err := <-end:
				if !errors.Is(err, ErrUnavailable) {
					t.Errorf("%v, want ErrUnavailable", err)
				}
			case <-time.After(fetchTimeout / 2):
				t.Error("it waits for an answer that cannot come")
			}
		})
	}
}

// A NATS that is away for half a second does not stop a queue filled from the overflow for much longer, no matter
// which calls were in progress.
func TestAShortAbsenceStopsNoOutflow(t *testing.T) {
	const away, round = 500 * time.Millisecond, 6
	engine, _ := newBolt(t)
	relayed := newRelay(t, startNATS(t).URL())
	nc := connect(t, relayed.url(), nats.ReconnectWait(100*time.Millisecond))
	s := openStream(t, nc, Options{})
	putSpec(t, engine, specFor("a", 300))
	a := newAppender(t, engine, s)
	list := numbered(6000)
	if n := defers(t, a, "a", list); n < 5000 {
		t.Fatalf("%d are deferred", n)
	}
	runReadmitter(t, NewReadmitter(engine, s))
	left := func() (n int) { // what can leave leaves
		res, err := engine.Reserve(t.Context(), queue.ReserveRequest{
			Client: queue.Client{ID: "d"}, Number: uint64(time.Now().UnixNano()), Max: 100,
		})
		if err != nil {
			t.Fatal(err)
		}
		var out []queue.Settlement
		for _, j := range res.Jobs {
			out = append(out, queue.Settlement{
				Lease: queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence}, Verdict: queue.Deliver,
			})
		}
		if len(out) > 0 {
			if _, err := engine.Settle(t.Context(), out); err != nil {
				t.Fatal(err)
			}
		}
		return len(out)
	}
	await.Until(t, "it flows", func() bool { return left() > 0 })
	for i := range round {
		relayed.swallows.Store(true) // so that something is under way
		time.Sleep(time.Duration(i) * 3 * time.Millisecond)
		relayed.refuses.Store(true)
		relayed.cut()
		for begin := time.Now(); time.Since(begin) < away; time.Sleep(time.Millisecond) {
			left()
		}
		relayed.swallows.Store(false)
		relayed.refuses.Store(false)
		back := time.Now()
		await.Until(t, "it flows again", func() bool { return left() > 0 })
		t.Logf("round %d: it flowed again %v after NATS was back", i, time.Since(back))
		if stood := time.Since(back); stood > time.Second { // it is a tenth, where the machine has time
			t.Errorf("round %d: nothing left for %v after NATS was back", i, stood)
		}
	}
}
