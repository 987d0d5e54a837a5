package boltq

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an engine on a file of its own, with a clock that the test moves.
type bench struct {
	*Engine
	testing.TB
	mu     sync.Mutex
	at     leaky.Instant
	opts   Options
	number uint64
}

func (b *bench) clock() leaky.Instant {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

func (b *bench) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = b.at.Add(d)
}

func wall() leaky.Instant { return leaky.Instant(time.Now().UnixMicro()) }

const noon = leaky.Instant(1_790_000_000_000_000)

func start(t testing.TB, opts Options) *bench {
	b := &bench{TB: t, at: noon, opts: opts}
	if opts.Now == nil {
		b.opts.Now = b.clock
	}
	b.open(filepath.Join(t.TempDir(), "store"))
	return b
}

func (b *bench) open(path string) {
	b.Helper()
	e, err := Open(context.Background(), path, b.opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Engine = e
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
}

func (b *bench) reopen() {
	b.Helper()
	if err := b.Close(); err != nil {
		b.Fatal(err)
	}
	b.open(b.path)
}

func (b *bench) put(name, rate string, change ...func(*queue.Spec)) {
	b.Helper()
	r, err := leaky.ParseRate(rate)
	if err != nil {
		b.Fatal(err)
	}
	s := queue.Spec{Name: name, Rate: r}
	for _, c := range change {
		c(&s)
	}
	if _, err := b.Put(context.Background(), s, queue.AnyRevision); err != nil {
		b.Fatal(err)
	}
}

func jobOf(name string, n int) queue.Job {
	return queue.Job{Queue: name, ID: fmt.Sprintf("job-%06d", n), Payload: fmt.Appendf(nil, `{"n":%d}`, n)}
}

func (b *bench) append(name string, from, n int) {
	b.Helper()
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = jobOf(name, from+i)
	}
	answers, err := b.Append(context.Background(), jobs)
	if err != nil {
		b.Fatal(err)
	}
	for _, a := range answers {
		if a.Outcome != queue.Accepted {
			b.Fatalf("append %s: %v, %v", a.ID, a.Outcome, a.Err)
		}
	}
}

func (b *bench) reserve(most int) []queue.Reservation {
	b.Helper()
	b.number++
	r, err := b.Reserve(context.Background(), queue.ReserveRequest{
		Client: queue.Client{ID: "c"}, Number: b.number, Max: most,
	})
	if err != nil {
		b.Fatal(err)
	}
	return r.Jobs
}

func settlements(v queue.Verdict, list []queue.Reservation) []queue.Settlement {
	s := make([]queue.Settlement, len(list))
	for i, r := range list {
		s[i] = queue.Settlement{Lease: queue.Lease{Queue: r.Queue, ID: r.ID, Fence: r.Fence}, Verdict: v, Reason: "no"}
		if v != queue.Deliver {
			s[i].After = time.Minute
		}
	}
	return s
}

func (b *bench) settleAll(v queue.Verdict, list []queue.Reservation) []queue.Settled {
	b.Helper()
	out, err := b.Settle(context.Background(), settlements(v, list))
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func (b *bench) info(name string) queue.Info {
	b.Helper()
	i, err := b.Get(context.Background(), name)
	if err != nil {
		b.Fatal(err)
	}
	return i
}

func TestInOutAndAgain(t *testing.T) {
	b := start(t, Options{})
	b.put("q", "unlimited")
	b.append("q", 0, 10)
	got := b.reserve(4)
	for i, r := range got {
		if want := jobOf("q", i); r.ID != want.ID || string(r.Payload) != string(want.Payload) {
			t.Fatalf("granted %s %s, want %s", r.ID, r.Payload, want.ID)
		}
	}
	for _, s := range b.settleAll(queue.Deliver, got) {
		if s.State != queue.Delivered {
			t.Fatalf("%+v", s)
		}
	}
	b.reopen()
	i := b.info("q")
	if i.Waiting != 6 || i.Delivered != 4 || i.Appended != 10 {
		t.Fatalf("%+v", i)
	}
}
