package deferred

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/transcript"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// deadline is for what must happen; nothing is judged by how long it took.
const deadline = 60 * time.Second

func startNATS(t testing.TB) *natsserver.Server { return startNATSWith(t, 0) }

func startNATSWith(t testing.TB, maxPayload int32) *natsserver.Server {
	t.Helper()
	s, err := natsserver.Start(t.Context(), natsserver.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", LazySync: true, MaxStore: 20 << 30, MaxPayload: maxPayload,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func connect(t testing.TB, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append([]nats.Option{
		nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func openStream(t testing.TB, nc *nats.Conn, o Options) *Stream {
	t.Helper()
	if o.Logger == nil {
		o.Logger = logTo(t)
	}
	s, err := open(t.Context(), nc, o)
	if err != nil {
		t.Fatal(err)
	}
	start(t, s.Run)
	return s
}

// open makes a stream and opens it.
func open(ctx context.Context, nc *nats.Conn, o Options) (*Stream, error) {
	s, err := NewStream(nc, o)
	if err != nil {
		return nil, err
	}
	return s, s.Open(ctx)
}

// start runs something until the test ends, or stop is called.
func start(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// newStream is the overflow on a NATS of its own.
func newStream(t testing.TB) *Stream {
	t.Helper()
	return openStream(t, connect(t, startNATS(t).URL()), Options{})
}

// logTo shows the log of a test that failed.
func logTo(t testing.TB) *slog.Logger {
	b := &transcript.Buffer{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", b.Tail(4000))
		}
	})
	return slog.New(slog.NewTextHandler(b, nil))
}

// clock is an engine's that jumps forward when told to.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() leaky.Instant {
	return leaky.Instant(time.Now().UnixMicro() + c.ahead.Load())
}

func (c *clock) jump(d time.Duration) { c.ahead.Add(d.Microseconds()) }

func newBolt(t testing.TB) (*boltq.Engine, *clock) {
	t.Helper()
	c := &clock{}
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), boltq.Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e, c
}

// specFor is a queue whose jobs may wait, with room for capacity and an outflow that no
// test reaches.
func specFor(name string, capacity int64) queue.Spec {
	return queue.Spec{Name: name, Rate: leaky.Unlimited, Capacity: capacity, Overflow: queue.Defer}
}

func putSpec(t testing.TB, e queue.Specs, s queue.Spec) {
	t.Helper()
	s.Normalize()
	if _, err := e.Put(t.Context(), s, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
}

func newAppender(t testing.TB, e Engine, s *Stream) *Appender {
	t.Helper()
	a := New(e, s, nil)
	start(t, a.Run)
	return a
}

// runReadmitter runs one until the test ends, or stop is called.
func runReadmitter(t testing.TB, r *Readmitter) (stop func()) {
	t.Helper()
	return start(t, r.Run)
}

func job(name, id string) queue.Job {
	return queue.Job{Queue: name, ID: id, Payload: []byte(`{"of":"` + id + `"}`)}
}

// numbered are the ids of n jobs.
func numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("j%06d", i)
	}
	return ids
}

// one appends a job.
func one(t testing.TB, a queue.Appender, j queue.Job) queue.Appended {
	t.Helper()
	answers, err := a.Append(t.Context(), []queue.Job{j})
	if len(answers) != 1 {
		t.Fatalf("%v, %v", answers, err)
	}
	return answers[0]
}

// leave takes n jobs out of the engine's queues and returns their ids in the order of
// their departures.
func leave(t testing.TB, e queue.Outflow, n int) []string {
	t.Helper()
	var ids []string
	client := queue.Client{ID: queue.NewID()}
	for number, end := uint64(1), time.Now().Add(deadline); len(ids) < n; number++ {
		if time.Now().After(end) {
			t.Fatalf("only %d of %d left, none within %v", len(ids), n, deadline)
		}
		before := len(ids)
		for p := range e.Partitions() {
			ids = append(ids, depart(t, e, queue.ReserveRequest{
				Partition: p, Client: client, Number: number, Max: min(n-len(ids), queue.MaxReserve),
			})...)
			if len(ids) == n {
				return ids
			}
		}
		if len(ids) == before {
			time.Sleep(time.Millisecond)
		} else {
			end = time.Now().Add(deadline)
		}
	}
	return ids
}

func depart(t testing.TB, e queue.Outflow, r queue.ReserveRequest) (ids []string) {
	t.Helper()
	got, err := e.Reserve(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	settlements := make([]queue.Settlement, len(got.Jobs))
	for i, j := range got.Jobs {
		ids = append(ids, j.ID)
		settlements[i] = queue.Settlement{
			Lease: queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence}, Verdict: queue.Deliver,
		}
	}
	if _, err := e.Settle(t.Context(), settlements); err != nil {
		t.Fatal(err)
	}
	return ids
}

// onStream is how many messages a subject has, as its leader says, when there is one.
func onStream(t testing.TB, s *Stream, subject string) (n int) {
	t.Helper()
	await.Until(t, "the leader answers", func() bool {
		subjects, err := s.count(context.Background(), subject)
		n = 0
		for _, k := range subjects {
			n += int(k)
		}
		return err == nil
	})
	return n
}

// deadLetters reads all there are, as soon as the stream has a leader.
func deadLetters(t testing.TB, s *Stream) (all []*nats.Msg) {
	t.Helper()
	await.Until(t, "the dead letters are read", func() bool {
		stream, err := s.js.Stream(t.Context(), s.deadName)
		if err != nil {
			return false
		}
		all = nil
		state := stream.CachedInfo().State
		for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
			m, err := stream.GetMsg(t.Context(), seq)
			if err != nil {
				return false
			}
			all = append(all, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
		}
		return true
	})
	return all
}
