package deferred

import (
	"fmt"
	"testing"

	"github.com/penstock/penstock/queue"
)

// While another process has the way back to itself the engine cannot be told of the jobs
// that went past it: those that may wait follow them, and the others need not.
func TestAppendBehindStrays(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 100))
	f := &faulty{Engine: r}
	a := newAppender(t, f, r.stream)
	known(t, a, "a")
	f.set(queue.ErrUnavailable, false, false)
	if x := one(t, a, job("a", "1")); x.State != queue.Deferred {
		t.Errorf("%+v", x)
	}
	hold := queue.ReadmitRequest{Queue: "a", Holder: "another", Overflow: r.stream.identity()}
	if x, err := r.Readmit(t.Context(), hold); err != nil || x.Busy != 0 {
		t.Fatal(x, err)
	}
	f.set(nil, false, false)
	until(t, "the engine is back, and not told", func() bool {
		away, strayed := a.absent.look("a")
		return !away && strayed
	})
	if x := one(t, a, job("a", "2")); x.State != queue.Deferred || x.Position != 0 {
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
	until(t, "the engine is told", func() bool { _, strayed := a.absent.look("a"); return !strayed })
	if x := one(t, a, job("a", "3")); x.State != queue.Deferred || x.Position == 0 {
		t.Errorf("overtook them: %+v", x)
	}
	runReadmitter(t, r.readmitter())
	if got := leave(t, r, 4); fmt.Sprint(got) != "[r 1 2 3]" {
		t.Error(got)
	}
}
