package survey_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/status"
)

// store implements the part of a store that a Survey reads.
type store struct {
	infos    map[string]*queue.Info
	now      time.Time
	err      error
	readings atomic.Int64
	got      []string // the names of the last GetMany
	lineups  []string // the names of all calls of Lineup
}

func (s *store) Readings(context.Context) (all []queue.Reading, err error) {
	s.readings.Add(1)
	for name, i := range s.infos {
		condition := ""
		if i.Pause.On() || i.Stop.On() {
			condition = fmt.Sprint(i.Pause, i.Stop)
		}
		all = append(all, queue.Reading{
			Name: name, Revision: i.Revision, Size: i.Size(), Bytes: i.Bytes, Deferred: i.Deferred, Counters: i.Counters,
			Outflow: i.Outflow, Rate: i.Rate, Condition: condition, Now: s.now,
		})
	}
	return all, s.err
}

func (s *store) GetMany(_ context.Context, list []string) (some []queue.Info, err error) {
	s.got = list
	for _, name := range list {
		if i := s.infos[name]; i != nil {
			info := *i
			info.Now, info.Asked = s.now, s.now
			if p := s.infos[names.Parent(name)]; p != nil {
				parent := *p
				info.Parent = &parent
			}
			some = append(some, info)
		}
	}
	return some, s.err
}

// Lineup returns a queue whose jobs wait in one lane.
func (s *store) Lineup(_ context.Context, name string) (l queue.Lineup, err error) {
	s.lineups = append(s.lineups, name)
	i := s.infos[name]
	if i == nil {
		return l, queue.ErrUnknownQueue
	}
	l.Info, l.Now, l.Asked = *i, s.now, s.now
	l.Lanes = []queue.LaneState{{
		LaneInfo: queue.LaneInfo{Waiting: i.Waiting}, Digest: queue.DigestLane("a"), Cost: i.Waiting,
	}}
	return l, s.err
}

// rig is a Survey of a store with a settable clock.
type rig struct {
	*testing.T
	store
	*survey.Survey
}

func newRig(t *testing.T, o survey.Options) *rig {
	r := &rig{T: t}
	r.now = time.Date(2026, 1, 14, 12, 0, 0, 0, time.UTC)
	r.infos = map[string]*queue.Info{}
	o.Now = func() time.Time { return r.now }
	r.Survey = survey.New(&r.store, o)
	return r
}

func (r *rig) add(name string) *queue.Info {
	rate := leaky.PerSecond(2)
	i := &queue.Info{Spec: queue.Spec{Name: name, Capacity: 10, Rate: rate, Burst: 1}, Rate: rate, Revision: 1}
	r.infos[name] = i
	return i
}

// after advances the clock and reads.
func (r *rig) after(d time.Duration) *survey.Snapshot {
	r.Helper()
	r.now = r.now.Add(d)
	if err := r.Read(r.Context()); err != nil {
		r.Fatal(err)
	}
	return r.Latest()
}

// tells checks the events after an id, and returns the id of the last one.
func (r *rig) tells(after int64, want ...string) int64 {
	r.Helper()
	events, last, all := r.Events(after)
	var got []string
	for _, e := range events {
		got = append(got, e.Queue+" "+string(e.Kind))
	}
	slices.Sort(got)
	if !all || !slices.Equal(got, want) {
		r.Errorf("events %q, %v; want %q", got, all, want)
	}
	return last
}

func TestRates(t *testing.T) {
	r := newRig(t, survey.Options{})
	i := r.add("q")
	i.Appended = 1000 // before anybody looked
	if row := r.after(0).Row("q"); row.Rates != (survey.Rates{}) || row.Status.Code != status.Idle {
		t.Errorf("%+v", row)
	}
	i.Appended, i.Delivered, i.Refused, i.Released, i.Lost, i.Waiting = 1050, 20, 10, 5, 15, 30
	row := r.after(5 * time.Second).Row("q")
	if row.Rates != (survey.Rates{In: 10, Out: 4, Refused: 2, Released: 1, Lost: 3}) || row.Fill() != 3 ||
		row.Status.Code != status.Flowing {
		t.Errorf("%+v", row)
	}
	if r.Latest().Row("none") != nil || r.Latest().Len() != 1 {
		t.Error("there is another queue")
	}
	r.after(5 * time.Second)
	if row := r.after(5 * time.Second).Row("q"); row.Rates != (survey.Rates{}) {
		t.Errorf("10 s later %+v", row.Rates)
	}
}

func TestHistory(t *testing.T) {
	r := newRig(t, survey.Options{})
	i := r.add("q")
	begun := r.now
	r.after(0)
	value := func(column string, at time.Time, window survey.Window) float32 {
		t.Helper()
		h := r.History("q", window)
		n := slices.Index(survey.ColumnNames(), column)
		return h.Values[n][int(at.Sub(h.From)/h.Step)]
	}
	for range 60 {
		i.Appended += 10
		i.Released += 5
		i.Waiting++
		r.after(5 * time.Second)
	}
	if h := r.History("q", survey.Fine); !h.Since.Equal(begun) || h.Step != 5*time.Second || len(h.Values[0]) != 180 {
		t.Errorf("%+v", h)
	}
	for at, want := range map[time.Duration]float32{5 * time.Second: 2, 5 * time.Minute: 2} {
		if got := value("in", begun.Add(at), survey.Fine); got != want {
			t.Errorf("in %v after the beginning: %v, want %v", at, got, want)
		}
	}
	if got := value("released", begun.Add(5*time.Second), survey.Fine); got != 1 {
		t.Errorf("%v a second were released, want 1", got)
	}
	for _, at := range []time.Time{begun.Add(-time.Second), begun} { // then nobody knew what was counted before
		for _, column := range []string{"in", "released"} {
			if got := value(column, at, survey.Fine); !math.IsNaN(float64(got)) {
				t.Errorf("%s was %v at %v", column, got, at)
			}
		}
	}
	if got := value("depth", begun, survey.Fine); got != 0 {
		t.Errorf("at the beginning %v", got)
	}
	// A mean and a maximum.
	if got := value("in", begun, survey.Coarse); math.Abs(float64(got)-2) > 1e-4 {
		t.Errorf("%v came in", got)
	}
	if got := value("depth", begun, survey.Coarse); got != 59 {
		t.Errorf("%v was the highest", got)
	}
	// The store does not answer for some time.
	r.err = queue.ErrUnavailable
	r.now = r.now.Add(20 * time.Second)
	if err := r.Read(t.Context()); err == nil {
		t.Error("it answered")
	}
	r.err = nil
	gap := r.now
	r.after(20 * time.Second)
	if got := value("depth", gap, survey.Fine); !math.IsNaN(float64(got)) {
		t.Errorf("in the gap it was %v", got)
	}
	if got := value("depth", r.now, survey.Fine); got != 60 {
		t.Errorf("after it %v", got)
	}
	// After a day only the last value is left.
	r.after(25 * time.Hour)
	known := 0
	for _, v := range r.History("q", survey.Coarse).Values[slices.Index(survey.ColumnNames(), "depth")] {
		if !math.IsNaN(float64(v)) {
			known++
		}
	}
	if known != 1 {
		t.Errorf("%d samples are left", known)
	}
	// A recreated queue has a new history, a deleted queue has no history.
	i.Counters = queue.Counters{Appended: 1}
	r.after(5 * time.Second)
	if h := r.History("q", survey.Fine); !h.Since.Equal(r.now) {
		t.Errorf("it is from %v", h.Since)
	}
	delete(r.infos, "q")
	r.after(time.Second)
	if h := r.History("q", survey.Fine); !h.Since.IsZero() {
		t.Errorf("%+v", h)
	}
}

// Queues beyond the limit have no history until there is room.
func TestHistoryIsBounded(t *testing.T) {
	r := newRig(t, survey.Options{MaxQueues: 2})
	for _, name := range []string{"a", "b", "c"} {
		r.add(name)
	}
	r.after(0)
	kept := func(want string) {
		t.Helper()
		got := ""
		for _, name := range []string{"a", "b", "c", "d"} {
			if !r.History(name, survey.Fine).Since.IsZero() {
				got += name
			}
		}
		if got != want {
			t.Errorf("%s have a history, want %s", got, want)
		}
	}
	kept("ab")
	delete(r.infos, "a")
	r.after(time.Second)
	r.add("d")
	r.after(time.Second)
	kept("bd")
	if r.Latest().Len() != 3 {
		t.Errorf("%d queues", r.Latest().Len())
	}
}

func TestEvents(t *testing.T) {
	r := newRig(t, survey.Options{MaxEvents: 4})
	i, p, child := r.add("q"), r.add("p"), r.add("p.child")
	r.after(0)
	last := r.tells(0)
	i.Waiting = 3
	r.after(time.Second)
	last = r.tells(last) // that it flows is nothing to tell
	i.Pause.Since = r.now
	r.after(time.Second)
	last = r.tells(last, "q paused")
	i.Pause = queue.Pause{}
	i.Revision++
	r.after(time.Second)
	last = r.tells(last, "q changed")
	i.Stop = queue.Stop{Until: r.now.Add(time.Minute), Cause: queue.StopThrottled}
	r.after(time.Second)
	last = r.tells(last, "q stopped")
	i.Stop, i.Waiting = queue.Stop{}, 10
	r.after(time.Second)
	last = r.tells(last, "q continued")
	i.Waiting = 12
	r.after(time.Second)
	last = r.tells(last)
	i.Waiting = 9
	r.after(time.Second)
	last = r.tells(last, "q room")
	p.Pause.Since = r.now
	r.after(time.Second)
	last = r.tells(last, "p paused", "p.child state")
	if row := r.Latest().Row("p.child"); row.Status.Code != status.ParentPaused {
		t.Errorf("%+v", row.Status)
	}
	p.Pause = queue.Pause{}
	child.Revision++
	delete(r.infos, "q")
	r.add("new")
	r.after(time.Second)
	last = r.tells(last, "new created", "p resumed", "p.child changed", "q deleted")

	// The number of kept events is limited, and unknown ids have no events.
	if _, _, all := r.Events(last - 5); all {
		t.Error("five are remembered")
	}
	r.tells(last-4, "new created", "p resumed", "p.child changed", "q deleted")
	r.tells(last)
	if _, _, all := r.Events(last + 1); all {
		t.Error("there are events to come")
	}
}

// A queue is read completely when its state may have changed. Otherwise queues with jobs take turns.
func TestReadsWhole(t *testing.T) {
	r := newRig(t, survey.Options{})
	for n := range 3000 {
		r.add(fmt.Sprintf("q%04d", n)).Spec.Capacity = 100
	}
	r.after(0)
	if len(r.got) != 3000 || r.Latest().Len() != 3000 {
		t.Fatalf("%d at first", len(r.got))
	}
	r.after(5 * time.Second)
	if len(r.got) != 0 {
		t.Errorf("%d idle ones", len(r.got))
	}
	r.infos["q0007"].Pause.Since = r.now
	r.after(time.Second)
	if !slices.Equal(r.got, []string{"q0007"}) {
		t.Errorf("%q", r.got)
	}
	for _, i := range r.infos {
		i.Waiting, i.Appended = 1, 1
	}
	r.after(time.Second)
	if len(r.got) != 0 {
		t.Errorf("%d between two steps", len(r.got))
	}
	seen := map[string]bool{}
	for n := range 3 {
		r.after(5 * time.Second)
		for _, name := range r.got {
			seen[name] = true
		}
		if len(r.got) != 1000 || len(seen) != 1000*(n+1) {
			t.Errorf("%d, %d in all", len(r.got), len(seen))
		}
	}
}

// hanging is a store that does not answer.
type hanging struct{ store }

func (*hanging) Readings(ctx context.Context) ([]queue.Reading, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A caller whose context ends stops waiting for a hanging store, even if another caller reads.
func TestWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := survey.New(&hanging{}, survey.Options{})
		go func() { _ = s.Read(t.Context()) }()
		synctest.Wait()
		for name, wait := range map[string]func(context.Context) error{
			"Read": s.Read, "First": func(ctx context.Context) error { _, err := s.First(ctx); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			begun := time.Now()
			if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(begun))
			}
			cancel()
		}
	})
}
