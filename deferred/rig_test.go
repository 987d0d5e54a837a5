package deferred

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// seen is what an Observer was told.
type seen struct {
	NoObserver
	mu       sync.Mutex
	stored   int
	failed   int
	returned int
	dead     map[Reason]int
	unburied int
	why      error // of the last of these
	missing  int
	depth    map[string]int64
	oldest   map[string]time.Time
}

func newSeen() *seen {
	return &seen{dead: map[Reason]int{}, depth: map[string]int64{}, oldest: map[string]time.Time{}}
}

func (s *seen) Stored(_ string, jobs int, _ time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed += jobs
		return
	}
	s.stored += jobs
}

func (s *seen) Returned(_ string, jobs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returned += jobs
}

func (s *seen) DeadLetter(_ string, r Reason, jobs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead[r] += jobs
}

func (s *seen) DeadLetterFailed(_ string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unburied++
	s.why = err
}

func (s *seen) Missing(_ string, jobs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing += jobs
}

func (s *seen) Depth(name string, jobs int64, oldest time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.depth[name], s.oldest[name] = jobs, oldest
}

// rig is an engine and an overflow, with everything at hand.
type rig struct {
	*boltq.Engine
	clock  *clock
	stream *Stream
	seen   *seen
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{seen: newSeen()}
	r.Engine, r.clock = newBolt(t)
	r.stream = openStream(t, connect(t, startNATS(t).URL()), Options{Observer: r.seen})
	return r
}

func (r *rig) readmitter() *Readmitter {
	m := NewReadmitter(r.Engine, r.stream)
	m.grace = 100 * time.Millisecond
	return m
}

// defers appends jobs with these ids, expects all of them to be accepted, and returns how many were deferred.
func defers(t testing.TB, a queue.Appender, name string, ids []string) (deferred int) {
	t.Helper()
	for chunk := range slices.Chunk(ids, 100) {
		jobs := make([]queue.Job, len(chunk))
		for i, id := range chunk {
			jobs[i] = job(name, id)
		}
		answers, err := a.Append(t.Context(), jobs)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range answers {
			if x.Outcome != queue.Accepted {
				t.Fatalf("%s: %v %v", x.ID, x.Outcome, x.Err)
			}
			if x.State == queue.Deferred {
				deferred++
			}
		}
	}
	return deferred
}

func (r *rig) info(t testing.TB, name string) queue.Info {
	t.Helper()
	info, err := r.Get(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// idle waits until nothing of a queue is on the overflow, nor believed to be.
func (r *rig) idle(t testing.TB, name string) {
	t.Helper()
	await.Until(t, "nothing of "+name+" is deferred", func() bool {
		return r.info(t, name).Deferred == 0 && onStream(t, r.stream, r.stream.subjects.of(name)) == 0
	})
}
