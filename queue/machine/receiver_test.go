package machine

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
)

// The receiver's state survives reopening: a stop, an open circuit, and the stop of a lane.
func TestStopsSurviveReopening(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("stopped", "10/s")
	b.MustPut("down", "10/s", func(s *queue.Spec) { s.Circuit.Failures = 1 })
	b.MustPut("lane", "10/s", func(s *queue.Spec) { s.Lanes.Burst = 3; s.Lanes.Rate = s.Rate })
	b.AppendTo("stopped", 0, 2)
	b.MustSettle(queue.Throttle, b.MustReserve(1))
	b.AppendTo("down", 0, 2)
	b.MustSettle(queue.Down, b.MustReserve(1))
	b.MustAppend(queue.Job{Queue: "lane", ID: "x", Lane: "x"}, queue.Job{Queue: "lane", ID: "y", Lane: "y"})
	list := enginetest.Settlements(queue.Throttle, b.MustReserve(1))
	list[0].LaneOnly = true
	if out, err := b.Settle(context.Background(), list); err != nil || out[0].Effect.Stopped != time.Minute {
		t.Fatalf("%+v, %v", out, err)
	}
	look := func() (said [3]any) {
		for i, name := range []string{"stopped", "down"} {
			info := b.MustGet(name)
			if info.Stop.Until.IsZero() || info.Circuit.Open() != (name == "down") {
				t.Errorf("%s: %+v %+v", name, info.Stop, info.Circuit)
			}
			said[i] = []any{info.Stop, info.Circuit, info.Next, info.Throttled, info.Down}
		}
		_, lane, err := b.Lane(context.Background(), "lane", "x")
		if err != nil || lane.Stop.IsZero() {
			t.Errorf("%+v, %v", lane, err)
		}
		said[2] = lane.Stop
		return said
	}
	before := look()
	b.reopen()
	if after := look(); !reflect.DeepEqual(before, after) {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	b.Advance(500 * time.Millisecond)
	if got := b.MustReserve(9); len(got) != 1 || got[0].ID != "y" {
		t.Errorf("granted %+v", got)
	}
	b.Advance(500 * time.Millisecond)
	if got := b.MustReserve(9); len(got) != 1 || got[0].Queue != "down" {
		t.Errorf("granted %+v, want one probe", got)
	}
	b.Advance(59 * time.Second)
	granted := map[string]int{}
	for _, r := range b.MustReserve(9) {
		granted[r.Queue]++
	}
	if granted["stopped"] != 1 || granted["lane"] != 1 {
		t.Errorf("granted %v", granted)
	}
}

// An impossible instant in the receiver's state is ignored: it neither stops a queue nor prevents stops.
func TestImpossibleInstantsAreIgnored(t *testing.T) {
	b := start(t, Options{})
	b.MustPut("q", "10/s")
	b.AppendTo("q", 0, 2)
	b.Engine.mu.Lock()
	b.queues["q"].receiver.throttledUntil = b.Engine.now().Add(48 * time.Hour)
	b.Engine.mu.Unlock()
	b.MustSettle(queue.Throttle, b.MustReserve(1)) // so that it is on file
	b.reopen()
	b.Advance(time.Minute)
	list := enginetest.Settlements(queue.Throttle, b.MustReserve(1))
	list[0].Untold, list[0].After = true, 0
	if out, err := b.Settle(context.Background(), list); err != nil || out[0].Effect.Stopped < time.Second {
		t.Errorf("%+v, %v; want a stop of a second or more", out, err)
	}
}
