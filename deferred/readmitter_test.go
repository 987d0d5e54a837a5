package deferred

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

// Jobs that find no room are deferred and come back in order as room appears, and nothing is left behind.
func TestBackInOrder(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 20))
	a := newAppender(t, r, r.stream)
	ids := numbered(500)
	if n := defers(t, a, "a", ids); n != 480 {
		t.Errorf("%d deferred", n)
	}
	if info := r.info(t, "a"); info.Deferred != 480 || info.Waiting != 20 {
		t.Errorf("%+v", info)
	}
	runReadmitter(t, r.readmitter())
	if got := leave(t, r, 500); !slices.Equal(got, ids) {
		t.Errorf("left in the order %v", got)
	}
	r.idle(t, "a")
	info := r.info(t, "a")
	if info.SetAside != 480 || info.Returned != 480 || info.Missing != 0 || r.seen.returned != 480 ||
		r.seen.stored != 480 || len(r.seen.dead) > 0 {
		t.Errorf("%+v %+v", info, r.seen)
	}
	if n := len(deadLetters(t, r.stream)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	// And now it is a queue like any other.
	if n := defers(t, a, "a", []string{"last"}); n != 0 {
		t.Error("deferred though there is room")
	}
}

// Jobs deferred before this process started are found, and jobs put by another process.
func TestFound(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 10))
	putSpec(t, r, specFor("b.c", 10))
	a := newAppender(t, r, r.stream)
	defers(t, a, "a", numbered(30))
	r.clock.jump(time.Hour) // what is recorded and not there would be given up by now
	runReadmitter(t, r.readmitter())
	leave(t, r, 30)
	r.idle(t, "a")
	if info := r.info(t, "a"); info.Missing != 0 || info.Returned != 20 {
		t.Errorf("%+v", info)
	}
	other := openStream(t, connect(t, r.stream.nc.ConnectedUrl()), Options{})
	defers(t, newAppender(t, r, other), "b.c", numbered(30))
	leave(t, r, 30)
	r.idle(t, "b.c")
}

// Jobs that bypassed the engine are judged when they come back.
func TestWithoutTicket(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 100))
	noError(t, r.stream.Put(t.Context(), itemsNow("a", numbered(30))))
	runReadmitter(t, r.readmitter())
	if got := leave(t, r, 30); !slices.Equal(got, numbered(30)) {
		t.Error(got)
	}
	r.idle(t, "a")
}

// itemsNow are put aside now, without a ticket.
func itemsNow(name string, ids []string) []Item {
	items := itemsFor(name, ids)
	for i := range items {
		items[i].At = time.Now()
	}
	return items
}

// The same id twice on the overflow, in two queues, again after its delivery, and with another payload.
func TestSameID(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 2))
	putSpec(t, r, specFor("b", 2))
	a := newAppender(t, r, r.stream)
	defers(t, a, "a", []string{"1", "2", "3", "4"})
	defers(t, a, "b", []string{"1", "2", "3"})
	if x := one(t, a, job("a", "3")); x.Outcome != queue.Duplicate || x.State != queue.Deferred {
		t.Errorf("%+v", x)
	}
	other := job("a", "3")
	other.Payload = []byte("other")
	if x := one(t, a, other); x.Outcome != queue.Conflict {
		t.Errorf("%+v", x)
	}
	// Past the engine, nobody can know.
	again := itemsNow("a", []string{"1", "3", "4", "5"})
	clash := itemFor(other, "")
	clash.At = time.Now()
	noError(t, r.stream.Put(t.Context(), append(again, clash)))

	runReadmitter(t, r.readmitter())
	got := leave(t, r, 8)
	slices.Sort(got)
	if fmt.Sprint(got) != "[1 1 2 2 3 3 4 5]" {
		t.Errorf("left: %v", got)
	}
	r.idle(t, "a")
	r.idle(t, "b")
	letters := deadLetters(t, r.stream)
	if len(letters) != 1 || letters[0].Subject != "penstock.dead.a" || letters[0].Header.Get(HeaderReason) != "clash" ||
		letters[0].Header.Get(HeaderID) != "3" || string(letters[0].Data) != "other" {
		t.Errorf("%+v", letters)
	}
	// After it was delivered.
	if x := one(t, a, job("a", "3")); x.Outcome != queue.Duplicate || x.State != queue.Delivered {
		t.Errorf("%+v", x)
	}
	noError(t, r.stream.Put(t.Context(), itemsNow("a", []string{"3", "6"})))
	if got := leave(t, r, 1); got[0] != "6" {
		t.Error(got)
	}
	r.idle(t, "a")
}
