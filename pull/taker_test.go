package pull_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// kindOf returns a request for one of twelve kinds of turns.
func kindOf(i int) pull.TurnRequest {
	return pull.TurnRequest{
		Lane: fmt.Sprint("lane", i%2), Cost: int64(1 + i%3), Priority: i % 4 / 2, Within: time.Minute,
	}
}

// Callers that want turns of different lanes, costs and priorities all get turns of their own kind, in one process and
// in two: they pass others on, and what they start keeps the pace of what it costs.
func TestKindsOfTurns(t *testing.T) {
	onBoth(t, func(t *testing.T, process func() queue.Engine) {
		for _, processes := range []int{1, 2} {
			t.Run(fmt.Sprint(processes, " processes"), func(t *testing.T) {
				const callers, rate = 36, 100
				e := process()
				name := fmt.Sprint("calls", processes)
				if _, err := e.Put(t.Context(), queue.Spec{
					Name: name, Rate: leaky.PerSecond(rate), Pull: true, Slack: unit.Duration(50 * time.Millisecond),
				}, 0); err != nil {
					t.Fatal(err)
				}
				var list []*pull.Turns
				for range processes {
					list = append(list, turnsOf(t, process(), name))
				}
				var mu sync.Mutex
				var all sync.WaitGroup
				var starts []law.Start
				began, total := time.Now(), int64(0)
				for i := range callers {
					r := kindOf(i)
					total += r.Cost
					all.Go(func() {
						turn, err := list[i%processes].Request(t.Context(), r)
						if err != nil {
							t.Error(err)
							return
						}
						came, err := turn.Come(t.Context())
						if err != nil {
							t.Error(i, r, err)
							return
						}
						mu.Lock()
						starts = append(starts, law.Start{At: time.Since(began), Cost: r.Cost})
						mu.Unlock()
						if !came.End(queue.Settlement{}) || came.End(queue.Settlement{}) {
							t.Error("a turn ends other than once")
						}
					})
				}
				all.Wait()
				for _, turns := range list {
					turns.Close()
				}
				// A process that was stopped for a while may start several at once.
				l := law.Law{
					Rate: leaky.PerSecond(rate), MaxCost: 3, Slack: 50 * time.Millisecond,
					Delta: 10 * time.Second / rate,
				}
				if v := l.Judge(starts); !v.Held || len(starts) != callers {
					t.Errorf("%d starts; the window law needs %v: %+v", len(starts), v.Needed, v.Worst)
				}
				info := infoOf(t, e, name)
				if info.Delivered != callers || info.Size() != 0 {
					t.Errorf("%d turns were used, and %d are left", info.Delivered, info.Size())
				}
			})
		}
	})
}

// Callers of different kinds give up while turns are passed between them. No turn is lost with them, and none is left.
func TestKindsOfTurnsGivenUp(t *testing.T) {
	onBoth(t, func(t *testing.T, process func() queue.Engine) {
		const callers = 48
		e := process()
		if _, err := e.Put(t.Context(), queue.Spec{
			Name: "calls", Rate: leaky.PerSecond(200), Pull: true, Slack: unit.Duration(50 * time.Millisecond),
		}, 0); err != nil {
			t.Fatal(err)
		}
		list := []*pull.Turns{turnsOf(t, process(), "calls"), turnsOf(t, process(), "calls")}
		var all sync.WaitGroup
		var in, out atomic.Int64
		for i := range callers {
			all.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%3 == 0 {
					time.AfterFunc(time.Duration(i)*10*time.Millisecond, cancel)
				}
				turn, err := list[i%2].Request(ctx, kindOf(i))
				if err == nil {
					err = turn.Wait(ctx)
				}
				switch {
				case err == nil:
					in.Add(1)
				case errors.Is(err, context.Canceled):
					out.Add(1)
				default:
					t.Error(i, err)
				}
			})
		}
		all.Wait()
		for _, turns := range list {
			turns.Close()
		}
		await.Until(t, "nothing is left", func() bool { return held(t, e, "calls") == 0 })
		if info := infoOf(t, e, "calls"); info.Delivered != in.Load() || in.Load() < callers*2/3 || info.TimedOut != 0 {
			t.Errorf(
				"%d came in by %d departures, %d gave up, %d timed out", in.Load(), info.Delivered, out.Load(), info.TimedOut,
			)
		}
	})
}

// departed returns a turn that has come.
func departed(t *testing.T, turns *pull.Turns) (*pull.Turn, *pull.Departure) {
	t.Helper()
	turn, err := turns.Reserve(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	came, err := turn.Come(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return turn, came
}

// However a turn ends, it ends once, and leaves nothing in the queue but what the receiver said.
func TestTurnEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, process func() queue.Engine) {
		for name, c := range map[string]struct {
			end  func(*testing.T, *pull.Turn, *pull.Departure)
			stop time.Duration // of the queue, at least
			used int64
		}{
			"delivered": {end: func(_ *testing.T, _ *pull.Turn, d *pull.Departure) { d.End(queue.Settlement{}) }, used: 1},
			"delivered with a stop": {end: func(_ *testing.T, _ *pull.Turn, d *pull.Departure) {
				d.End(queue.Settlement{After: time.Hour, Reason: "used up"})
			}, stop: 59 * time.Minute, used: 1},
			"throttled": {end: func(t *testing.T, _ *pull.Turn, d *pull.Departure) {
				if !d.Throttle(time.Hour, "429", queue.Budget{}) || d.Throttle(time.Hour, "429", queue.Budget{}) ||
					d.End(queue.Settlement{}) {
					t.Error("it ends other than once")
				}
			}, stop: 59 * time.Minute},
			"throttled without a time": {
				end: func(_ *testing.T, _ *pull.Turn, d *pull.Departure) {
					d.Throttle(0, "429", queue.Budget{})
				}, stop: time.Second / 2,
			},
			"failed": {
				end: func(_ *testing.T, _ *pull.Turn, d *pull.Departure) { d.Fail("500", false); d.Fail("500", false) },
			},
			"failed unused": {end: func(_ *testing.T, _ *pull.Turn, d *pull.Departure) { d.Fail("refused", true) }},
			"missed and given up": {end: func(t *testing.T, turn *pull.Turn, d *pull.Departure) {
				d.Miss()
				d.Miss()
				turn.Cancel(t.Context())
				turn.Cancel(t.Context())
			}},
			"missed and taken": {end: func(t *testing.T, turn *pull.Turn, d *pull.Departure) {
				d.Miss()
				again, err := turn.Come(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if d.End(queue.Settlement{}) {
					t.Error("the missed turn ends another time")
				}
				again.End(queue.Settlement{})
			}, used: 1},
		} {
			t.Run(name, func(t *testing.T) {
				e := process()
				spec := queue.Spec{Name: "calls", Rate: leaky.PerSecond(100), Pull: true, Slack: unit.Duration(10 * time.Second)}
				if _, err := e.Put(t.Context(), spec, queue.AnyRevision); err != nil {
					t.Fatal(err)
				}
				before := infoOf(t, e, "calls").Delivered
				turns := turnsOf(t, e, "calls")
				turn, came := departed(t, turns)
				began := time.Now()
				c.end(t, turn, came)
				turns.Close()
				info := infoOf(t, e, "calls")
				if info.Size() != 0 || info.Delivered-before != c.used {
					t.Errorf("%d places are left, and %d turns were used, want %d", info.Size(), info.Delivered-before, c.used)
				}
				if left := info.Stop.Until.Sub(info.Now) + time.Since(began); c.stop > 0 && left < c.stop || c.stop == 0 &&
					left > time.Minute {
					t.Errorf("the queue is stopped for %v, want %v", left, c.stop)
				}
				if err := e.Delete(t.Context(), "calls", queue.AnyRevision, true); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

// Turns whose callers died do not hold up callers that want turns of other kinds, however urgent the dead were.
func TestTurnsOfTheDead(t *testing.T) {
	onBoth(t, func(t *testing.T, process func() queue.Engine) {
		e := process()
		if _, err := e.Put(t.Context(), queue.Spec{
			Name: "calls", Rate: leaky.PerSecond(100), Pull: true, Slack: unit.Duration(100 * time.Millisecond),
		}, 0); err != nil {
			t.Fatal(err)
		}
		dead, turns := turnsOf(t, process(), "calls"), turnsOf(t, process(), "calls")
		if _, err := dead.Request(t.Context(), pull.TurnRequest{
			Priority: queue.MaxPriority, Cost: 2,
			Within: time.Hour,
		}); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := turns.Wait(t.Context(), 50*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		turns.Close()
		if n := held(t, e, "calls"); n != 0 {
			t.Errorf("%d places are left", n)
		}
	})
}
