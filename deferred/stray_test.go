package deferred

import (
	"context"
	"fmt"
	"testing"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// The engine learns of strays as soon as it answers, even while another process has the way back: deferrable jobs
// follow them, and the others need not.
func TestAppendBehindStrays(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 100))
	f := &faulty{Engine: r}
	a := newAppender(t, f, r.stream)
	known(t, a, "a")
	hold := queue.ReadmitRequest{Queue: "a", Holder: "another", Overflow: r.stream.identity()}
	seen, err := r.Readmit(t.Context(), hold)
	if err != nil || seen.Busy != 0 {
		t.Fatal(seen, err)
	}
	f.set(queue.ErrUnavailable, false, false)
	if x := one(t, a, job("a", "1")); x.State != queue.Deferred {
		t.Errorf("%+v", x)
	}
	f.set(nil, false, false)
	await.Until(t, "the engine is told", func() bool { away, strayed := a.outages.of("a"); return !away && !strayed })
	hold.AsOf = seen.Now // an earlier look found nothing
	if x, err := r.Readmit(t.Context(), hold); err != nil || x.Busy != 0 || x.Behind != 1 {
		t.Fatal(x, err)
	}
	if x := one(t, a, job("a", "2")); x.State != queue.Deferred || x.Position == 0 {
		t.Errorf("overtook the first: %+v", x)
	}
	rejects := job("a", "r")
	rejects.Overflow = queue.Reject
	if x := one(t, a, rejects); x.State != queue.Waiting {
		t.Errorf("%+v", x)
	}
	hold.Leave = true
	if x, err := r.Readmit(t.Context(), hold); err != nil || x.Busy != 0 {
		t.Fatal(x, err)
	}
	runReadmitter(t, r.readmitter())
	if got := leave(t, r, 3); fmt.Sprint(got) != "[r 1 2]" {
		t.Error(got)
	}
	r.idle(t, "a")
}

// slow is an engine that answers, once it is asked anything but about a job, only when the
// test lets it.
type slow struct {
	*faulty
	get, announce gate
}

// gate holds who comes until it is opened.
type gate struct{ come, open chan struct{} }

func newGate() gate { return gate{make(chan struct{}), make(chan struct{})} }

func (g gate) pass() {
	select {
	case g.come <- struct{}{}:
		<-g.open
	case <-g.open:
	}
}

func (s *slow) Get(ctx context.Context, name string) (queue.Info, error) {
	s.get.pass()
	return s.Engine.Get(ctx, name)
}

func (s *slow) Announce(ctx context.Context, name string) error {
	s.announce.pass()
	return s.Engine.Announce(ctx, name)
}

// The engine answers before it has learned of the strays: until it has, deferrable jobs still follow them.
func TestStraysWhileTheEngineComesBack(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 100))
	f := &slow{&faulty{Engine: r}, newGate(), newGate()}
	a := New(f, r.stream, nil)
	a.patience = deadline
	a.specs = newSpecs(r.Get, deadline, appendAge)
	start(t, a.Run)
	known(t, a, "a")

	f.set(queue.ErrUnavailable, false, false)
	rejects := job("a", "r")
	rejects.Overflow = queue.Reject
	if x := one(t, a, rejects); x.Outcome != queue.Failed {
		t.Fatalf("%+v", x)
	}
	<-f.get.come // it is asked whether it is back, and nothing has strayed
	if x := one(t, a, job("a", "1")); x.State != queue.Deferred {
		t.Fatalf("%+v", x)
	}
	f.set(nil, false, false)
	close(f.get.open)
	<-f.announce.come // it is, and about to be told
	second := make(chan queue.Appended)
	go func() { second <- one(t, a, job("a", "2")) }()
	select {
	case x := <-second:
		t.Errorf("answered before the engine was told: %+v", x)
		close(f.announce.open)
	case <-f.announce.come: // the caller of this one announces it itself
		close(f.announce.open)
		if x := <-second; x.State != queue.Deferred {
			t.Errorf("overtook the first: %+v", x)
		}
	}
	await.Until(t, "the engine is told", func() bool { _, strayed := a.outages.of("a"); return !strayed })
	if x := one(t, a, job("a", "3")); x.State != queue.Deferred || x.Position == 0 {
		t.Errorf("overtook them: %+v", x)
	}
	runReadmitter(t, r.readmitter())
	if got := leave(t, r, 3); fmt.Sprint(got) != "[1 2 3]" {
		t.Error(got)
	}
	r.idle(t, "a")
}
