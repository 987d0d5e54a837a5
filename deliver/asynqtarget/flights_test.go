package asynqtarget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/penstock/penstock/deliver/asynqtarget/asynqtask"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
)

// until is a gate that is open until an instant.
type until time.Time

func (until) Wait(context.Context) error { return nil }
func (u until) Closes() time.Time        { return time.Time(u) }

// fleet delivers jobs in flights of a test's making.
type fleet struct {
	*testing.T
	server  *redistest.Server
	proxy   *faultproxy.Proxy
	sender  *Sender
	flights *flights
}

func newFleet(t *testing.T) *fleet {
	server := redistest.New(t, redistest.Options{})
	proxy := faultproxy.New(t, server.Addr())
	f := &flights{UniversalClient: once(asynq.RedisClientOpt{Addr: proxy.Addr()})}
	s := &Sender{
		redis: f.UniversalClient, client: asynq.NewClientFromRedisClient(f),
		inspector: asynq.NewInspectorFromRedisClient(f.UniversalClient),
	}
	t.Cleanup(func() { _ = s.Close() })
	return &fleet{t, server, proxy, s, f}
}

func (f *fleet) deliver(ctx context.Context, id, payload string, gate drain.Gate) error {
	target := asynqtask.Default()
	target.Task = "email:send"
	job := &drain.Job{Spec: &queue.Spec{}, Reservation: queue.Reservation{Attempt: 1, Job: queue.Job{
		Queue: "mail", ID: id, Payload: []byte(payload),
	}}}
	return f.sender.Deliver(ctx, job, gate, target)
}

// fly delivers jobs in one flight, which leaves when meanwhile returns, and returns what became of each.
func (f *fleet) fly(ids []string, deliver func(id string) error, meanwhile func()) map[string]error {
	f.Helper()
	here := &flight{landed: make(chan struct{})} // the test is the first on board
	f.flights.boarding = here
	errs := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			err := deliver(id)
			mu.Lock()
			defer mu.Unlock()
			errs[id] = err
		})
		await.Until(f.T, "seated", func() bool {
			f.flights.mu.Lock()
			defer f.flights.mu.Unlock()
			return len(here.seats) == i+1
		})
	}
	meanwhile()
	f.flights.boarding = nil
	f.flights.fly(here)
	all.Wait()
	return errs
}

func (f *fleet) wantPending(want ...string) {
	f.Helper()
	ids, err := f.server.Client().LRange(f.Context(), "asynq:{default}:pending", 0, -1).Result()
	slices.Sort(ids)
	if err != nil || !slices.Equal(ids, want) {
		f.Errorf("asynq has %v, %v, want %v", ids, err, want)
	}
}

// Of tasks that leave together each has an outcome of its own, and what is too late by then, or was interrupted, does
// not leave.
func TestOneFlight(t *testing.T) {
	f := newFleet(t)
	open, soon := until(time.Now().Add(time.Hour)), until(time.Now().Add(2*time.Second))
	if err := errors.Join(
		f.deliver(t.Context(), "taken", "another", open), f.deliver(t.Context(), "again", "a", open),
	); err != nil {
		t.Fatal(err)
	}
	interrupted, interrupt := context.WithCancelCause(t.Context())
	errs := f.fly([]string{"good", "late", "interrupted", "taken", "again", "good too"}, func(id string) error {
		switch id {
		case "late":
			return f.deliver(t.Context(), id, "a", soon)
		case "interrupted":
			return f.deliver(interrupted, id, "a", open)
		}
		return f.deliver(t.Context(), id, "a", open)
	}, func() {
		interrupt(drain.ErrLeaseLost)
		await.Until(t, "late", func() bool { return time.Now().After(time.Time(soon)) })
	})
	for id, want := range map[string]queue.Verdict{
		"good": queue.Deliver, "late": queue.Fail, "interrupted": queue.Release, "taken": queue.Bury, "again": queue.Deliver,
		"good too": queue.Deliver,
	} {
		if said := drain.What(errs[id]); said.Verdict != want || errors.Is(errs[id], drain.ErrLate) != (id == "late") {
			t.Errorf("%s: %v says %+v", id, errs[id], said)
		}
	}
	f.wantPending("again", "good", "good too", "taken")
}

// Of a flight that broke off nobody knows what of it was carried out behind the last answer. Each is in once, also when
// it is released again.
func TestFlightBreaksOff(t *testing.T) {
	f := newFleet(t)
	open := until(time.Now().Add(time.Hour))
	if err := f.deliver(t.Context(), "first", "a", open); err != nil {
		t.Fatal(err)
	}
	lost := f.proxy.SwallowNext(faultproxy.Script("lost"))
	deliver := func(id string) error { return f.deliver(t.Context(), id, "a", open) }
	ids := []string{"before", "lost", "behind"}
	errs := f.fly(ids, deliver, func() {})
	for _, id := range ids {
		// go-redis may pass off what it read before as lost.
		if said := drain.What(errs[id]); (said.Verdict != queue.Hold || !said.Trouble) && (id != "before" ||
			errs[id] != nil) {
			t.Errorf("%s: %v says %+v", id, errs[id], said)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := lost.Await(ctx); err != nil {
		t.Error(err)
	}
	for _, id := range ids {
		if err := deliver(id); err != nil {
			t.Errorf("%s again: %v", id, err)
		}
	}
	f.wantPending("before", "behind", "first", "lost")
}

// No more than flightTasks leave together, and who finds a full flight begins another.
func TestFullFlight(t *testing.T) {
	f := &flights{}
	var last *flight
	for i := range 2*flightTasks + 1 {
		here, first := f.board(&seat{})
		if first != (i%flightTasks == 0) || (here == last) == first {
			t.Fatalf("number %d: first: %v", i, first)
		}
		last = here
	}
	if n := len(last.seats); n != 1 {
		t.Error(fmt.Sprint(n, " in the last"))
	}
}

// What a connection is refused for is what becomes of all on board: no task is taken for released that never left. A
// Redis says so when its password was changed, and the connections are made anew.
func TestFlightIsRefusedItsConnection(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	admin := server.Client()
	if err := admin.ConfigSet(t.Context(), "requirepass", "one").Err(); err != nil {
		t.Fatal(err)
	}
	s := New(Options{Redis: asynq.RedisClientOpt{Addr: server.Addr(), Password: "one"}})
	t.Cleanup(func() { _ = s.Close() })
	f := &fleet{T: t, server: server, sender: s}
	open := until(time.Now().Add(time.Hour))
	if err := f.deliver(t.Context(), "first", "a", open); err != nil {
		t.Fatal(err)
	}
	if err := admin.ConfigSet(t.Context(), "requirepass", "another").Err(); err != nil {
		t.Fatal(err)
	}
	if err := admin.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"second", "third"} {
		if err := f.deliver(t.Context(), id, "a", open); drain.What(err).Verdict != queue.Down {
			t.Errorf("%s: %v says %+v", id, err, drain.What(err))
		}
	}
}
