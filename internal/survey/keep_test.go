package survey_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/series"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// newKeeper returns a store in memory that keeps histories.
func newKeeper(t *testing.T) *boltq.Engine {
	t.Helper()
	e, err := boltq.OpenMemory(t.Context(), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// restarted is a new Survey of the same queues, as after a restart of the ingress.
func (r *rig) restarted(o survey.Options) *rig {
	n := &rig{T: r.T}
	n.now, n.infos = r.now, r.infos
	o.Now = func() time.Time { return n.now }
	n.Survey = survey.New(&n.store, o)
	return n
}

// serve appends and delivers jobs at 2/s and 1/s, and reads every 5 s.
func (r *rig) serve(d time.Duration, some ...*queue.Info) {
	r.Helper()
	for range d / (5 * time.Second) {
		for _, i := range some {
			i.Appended += 10
			i.Delivered += 5
			i.Waiting += 5
		}
		r.after(5 * time.Second)
	}
}

// checkCurves checks that each point of the curves follows the rates of serve, up to the jobs of one reading.
func (r *rig) checkCurves(f survey.Curves, queues float64, span time.Duration, least int) {
	r.Helper()
	if len(f.Points) < least {
		r.Fatalf("%d points, want at least %d", len(f.Points), least)
	}
	first, last := f.Points[0], f.Points[len(f.Points)-1]
	if first.Left != 0 || last.At.Sub(first.At) < span {
		r.Errorf("from %+v to %+v", first, last)
	}
	for _, p := range f.Points {
		for what, c := range map[string]struct {
			got  int64
			rate float64
		}{"arrived": {p.Arrived - first.Arrived, 2}, "left": {p.Left, 1}} {
			if want := queues * c.rate * p.At.Sub(first.At).Seconds(); math.Abs(float64(c.got)-want) > 10*queues {
				r.Errorf("%v: %d %s, want %.0f", p.At, c.got, what, want)
			}
		}
	}
}

// A restarted ingress continues the curves, and the columns, where the last one ended.
func TestHistoryOutlivesARestart(t *testing.T) {
	keeper := newKeeper(t)
	o := survey.Options{Keeper: keeper, Version: "v1"}
	r := newRig(t, o)
	i, other := r.add("q"), r.add("other")
	i.Appended = 7 // before the first reading
	i.Waiting = 7
	r.after(0)
	r.serve(4*time.Hour, i, other)
	paused := r.now.Add(-time.Minute)
	i.Pause = queue.Pause{Since: paused, Reason: "wrong link"}
	r.after(5 * time.Second)
	i.Pause = queue.Pause{}
	i.Revision++
	r.serve(31*time.Second, i, other)
	before := r.Curves(15*time.Minute, nil)
	r.checkCurves(before, 2, 14*time.Minute, 170)

	o.Version = "v2"
	n := r.restarted(o)
	n.after(40 * time.Second) // the ingress was away; jobs did not move
	n.serve(35*time.Second, i, other)
	for span, least := range map[time.Duration]int{15 * time.Minute: 28, 2 * time.Hour: 24, 24 * time.Hour: 30} {
		all := n.Curves(span, nil)
		one := n.Curves(span, func(name string) bool { return name == "q" })
		if len(all.Points) < least || len(one.Points) != len(all.Points) {
			t.Fatalf("%v: %d and %d points, want %d", span, len(all.Points), len(one.Points), least)
		}
		last := one.Points[len(one.Points)-1]
		if last.Depth() != i.Size() || all.Points[len(all.Points)-1].Depth() != i.Size()+other.Size() {
			t.Errorf("%v: at the end %+v, want a depth of %d", span, last, i.Size())
		}
		for at, p := range one.Points[1:] {
			if p.Arrived < one.Points[at].Arrived || p.Left < one.Points[at].Left || p.Depth() < 0 {
				t.Errorf("%v: %+v follows %+v", span, p, one.Points[at])
			}
		}
	}
	long := n.Curves(24*time.Hour, nil)
	if got := long.Points[0].At; n.now.Sub(got) < 3*time.Hour+30*time.Minute {
		t.Errorf("it begins at %v, %v ago", got, n.now.Sub(got))
	}
	got := map[string]string{}
	for _, m := range long.Marks {
		got[string(m.Kind)] = m.Queue + ": " + m.Text
	}
	if want := map[string]string{"paused": "q: wrong link", "changed": "q: revision 2", "deployed": ": ingress v2"}; !maps.
		Equal(got, want) {
		t.Errorf("marks %q, want %q", got, want)
	}
	if marks := n.Curves(24*time.Hour, func(name string) bool { return name == "other" }).Marks; len(marks) != 1 {
		t.Errorf("marks of another queue: %+v", marks)
	}
	// The columns have rates again.
	h := n.History("q", survey.Coarse)
	column := h.Values[slices.Index(survey.ColumnNames(), "in")]
	for at := len(column) - 40; at < len(column)-2; at++ {
		if v := float64(column[at]); math.Abs(v-2) > 0.1 {
			t.Errorf("%d steps before the end %v a second came in, want 2", len(column)-at, v)
		}
	}
	if n.KeepFailures() != 0 {
		t.Errorf("%d failures", n.KeepFailures())
	}
}

// A queue that was created anew while the ingress was away does not continue the old one's curves.
func TestRecreatedQueueBeginsAnew(t *testing.T) {
	keeper := newKeeper(t)
	r := newRig(t, survey.Options{Keeper: keeper})
	i := r.add("q")
	r.after(0)
	r.serve(10*time.Minute, i)
	i.Counters, i.Waiting = queue.Counters{Appended: 3}, 3
	n := r.restarted(survey.Options{Keeper: keeper})
	n.after(time.Minute)
	f := n.Curves(15*time.Minute, nil)
	if last := f.Points[len(f.Points)-1]; last.Arrived != 3 || last.Left != 0 {
		t.Errorf("%+v", last)
	}
	if !n.History("q", survey.Fine).Since.Equal(n.now) {
		t.Errorf("since %v", n.History("q", survey.Fine).Since)
	}
}

// Of two ingresses the first to write a sample writes it, for both.
func TestOneIngressWrites(t *testing.T) {
	keeper := &counting{Engine: newKeeper(t)}
	r := newRig(t, survey.Options{Keeper: keeper})
	i := r.add("q")
	r.after(0)
	second := r.restarted(survey.Options{Keeper: keeper})
	for range 60 {
		r.serve(5*time.Second, i)
		second.after(5 * time.Second)
	}
	if keeper.added != 10+1 || keeper.refused != 10+1 {
		t.Errorf("%d samples were added and %d refused in 5 minutes", keeper.added, keeper.refused)
	}
}

type counting struct {
	*boltq.Engine
	added, refused, bytes int
	err                   error
}

func (c *counting) PutSample(ctx context.Context, s series.Sample, keep int64) (bool, error) {
	if c.err != nil {
		return false, c.err
	}
	added, err := c.Engine.PutSample(ctx, s, keep)
	if added {
		c.added++
		c.bytes = len(s.Data)
	} else {
		c.refused++
	}
	return added, err
}

// A store that keeps no samples stops no reading, and a damaged sample is left out.
func TestHistoryThatCannotBeKept(t *testing.T) {
	keeper := &counting{Engine: newKeeper(t), err: queue.ErrStoreFull}
	r := newRig(t, survey.Options{Keeper: keeper})
	i := r.add("q")
	r.after(0)
	r.serve(time.Minute, i)
	if r.KeepFailures() != 2 || len(r.Curves(15*time.Minute, nil).Points) != 13 {
		t.Errorf("%d failures, %+v", r.KeepFailures(), r.Curves(15*time.Minute, nil).Points)
	}
	keeper.err = nil
	r.serve(time.Minute, i)
	all, err := keeper.SamplesSince(t.Context(), 1, 0)
	if err != nil || len(all) != 2 {
		t.Fatal(len(all), err)
	}
	for n, data := range [][]byte{nil, {1}, {2, 0}, []byte("noise"), all[1].Data[:len(all[1].Data)/2]} {
		if len(data) == 0 {
			continue
		}
		s := series.Sample{Series: 1, Number: all[1].Number + int64(n), Data: data}
		if _, err := keeper.PutSample(t.Context(), s, 30); err != nil {
			t.Fatal(err)
		}
	}
	r.now = r.now.Add(5 * time.Minute)
	n := r.restarted(survey.Options{Keeper: keeper})
	n.after(0)
	if n.KeepFailures() != 4 || len(n.Curves(15*time.Minute, nil).Points) < 3 {
		t.Errorf("%d failures, %d points", n.KeepFailures(), len(n.Curves(15*time.Minute, nil).Points))
	}
}

// While the store cannot say what it kept, nothing is read: the histories would have a gap.
func TestStoreIsDownAtTheStart(t *testing.T) {
	keeper := newKeeper(t)
	r := newRig(t, survey.Options{Keeper: keeper})
	i := r.add("q")
	r.after(0)
	r.serve(time.Minute, i)
	down := &downAtFirst{Engine: keeper, down: true}
	n := r.restarted(survey.Options{Keeper: down})
	if err := n.Read(t.Context()); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("the first reading: %v", err)
	}
	down.down = false
	n.after(5 * time.Second)
	if got := len(n.Curves(15*time.Minute, nil).Points); got < 3 {
		t.Errorf("%d points", got)
	}
}

type downAtFirst struct {
	*boltq.Engine
	down bool
}

func (d *downAtFirst) SamplesSince(ctx context.Context, of uint8, after int64) ([]series.Sample, error) {
	if d.down {
		return nil, queue.ErrUnavailable
	}
	return d.Engine.SamplesSince(ctx, of, after)
}

// A sample of 10,000 busy queues stays within its bound, even if names are long, and says how large it is.
func TestSampleOfManyQueues(t *testing.T) {
	for _, c := range []struct {
		what string
		name func(int) string
		all  bool
	}{
		{"short names", func(n int) string { return fmt.Sprintf("tenant-%04d", n) }, true},
		{"long names", func(n int) string { return fmt.Sprintf("%s%06d", strings.Repeat("x", 40), n*7919%1000003) }, true},
	} {
		keeper := &counting{Engine: newKeeper(t)}
		r := newRig(t, survey.Options{Keeper: keeper})
		for n := range 10_000 {
			i := r.add(c.name(n))
			i.Appended, i.Delivered, i.Refused = int64(n*7919%5_000_000), int64(n*7907%4_000_000), int64(n%100)
			i.Waiting, i.Outflow = int64(n*31%10_000), float64(n%70)
		}
		r.after(0)
		r.after(30 * time.Second)
		t.Logf("%s: %d bytes", c.what, keeper.bytes)
		if keeper.bytes == 0 || keeper.bytes > series.MaxBytes {
			t.Errorf("%s: %d bytes", c.what, keeper.bytes)
		}
		begun := time.Now()
		n := r.restarted(survey.Options{Keeper: keeper})
		n.after(5 * time.Second)
		t.Logf("restored in %v", time.Since(begun))
		if f := n.Curves(15*time.Minute, nil); len(f.Points) < 2 {
			t.Errorf("%s: %d points", c.what, len(f.Points))
		}
	}
}

// Whatever a sample holds, decoding it neither panics nor takes much memory.
func FuzzSample(f *testing.F) {
	f.Add([]byte{1})
	f.Add([]byte("\x01\x03\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := survey.DecodeSample(bytes.Clone(data)); err == nil && len(data) == 0 {
			t.Error("an empty sample")
		}
	})
}
