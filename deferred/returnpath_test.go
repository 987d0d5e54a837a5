package deferred

import (
	"context"
	"fmt"
	"testing"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// gated is an engine whose Readmits wait to be let through, one by one.
type gated struct {
	Engine
	come chan queue.ReadmitRequest
	gone chan struct{}
	open chan struct{} // closed: nobody waits any more
}

func newGated(e Engine) *gated {
	return &gated{Engine: e, come: make(chan queue.ReadmitRequest), gone: make(chan struct{}), open: make(chan struct{})}
}

func (g *gated) Readmit(ctx context.Context, r queue.ReadmitRequest) (queue.Readmitted, error) {
	select {
	case g.come <- r:
	case <-g.open:
		return g.Engine.Readmit(ctx, r)
	}
	<-g.gone // the test has let it through
	a, err := g.Engine.Readmit(context.WithoutCancel(ctx), r)
	g.gone <- struct{}{}
	return a, err
}

// pass lets the Readmit that has come through, and returns when it was carried out.
func (g *gated) pass() {
	g.gone <- struct{}{}
	<-g.gone
}

// The result of a look arrives after a job strayed and the engine learned of it. The look was earlier and says nothing
// about that job, which no other job overtakes.
func TestSeenBeforeAStray(t *testing.T) {
	for name, before := range map[string][]string{
		"counted nothing":    nil,
		"read what is there": {"0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			putSpec(t, r, specFor("a", 100))
			f := &faulty{Engine: r}
			a := newAppender(t, f, r.stream)
			known(t, a, "a")
			noError(t, r.stream.Put(t.Context(), itemsNow("a", before)))
			g := newGated(r)
			m := NewReadmitter(g, r.stream)
			runReadmitter(t, m)
			await.Until(t, "it runs", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.ctx != nil })
			m.ring("a")
			for said := <-g.come; len(said.Jobs) < len(before) || !said.Empty && len(before) == 0; said = <-g.come {
				g.pass()
			}

			f.set(queue.ErrUnavailable, false, false)
			if x := one(t, a, job("a", "1")); x.State != queue.Deferred {
				t.Fatalf("%+v", x)
			}
			r.clock.jump(queue.ReadmitFor) // the hold on the way back ends
			f.set(nil, false, false)
			await.Until(t, "the engine is told", func() bool { away, strayed := a.outages.of("a"); return !away && !strayed })
			g.pass()

			if x := one(t, a, job("a", "2")); x.State != queue.Deferred {
				t.Errorf("overtook the first: %+v", x)
			}
			close(g.open)
			if got := leave(t, r, len(before)+2); fmt.Sprint(got) != fmt.Sprint(append(before, "1", "2")) {
				t.Error(got)
			}
			r.idle(t, "a")
		})
	}
}
