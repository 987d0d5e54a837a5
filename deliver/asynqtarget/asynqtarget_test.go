package asynqtarget_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	goredis "github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/asynqtarget"
	"github.com/penstock/penstock/deliver/asynqtarget/asynqtask"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// A producer that enqueues through Penstock, a fleet of workers that knows nothing of it: everything arrives once, at
// the rate, with asynq's options.
func TestRoundTrip(t *testing.T) {
	const n = 60
	rate := leaky.PerSecond(100)
	_, o := redis(t)
	e := engine(t, queue.Spec{Name: "mail", Rate: rate, Deliver: []byte(
		`{"asynq": {"queue": "out", "tasks": ["email:*"], "retention": "1h"}}`,
	)})
	client := asynqtarget.NewClient(e)
	for i := range n {
		info, err := client.Enqueue(
			asynq.NewTask("email:send", fmt.Appendf(nil, "%d", i)), asynq.Queue("mail"), asynq.TaskID(fmt.Sprint("t", i)),
			asynq.MaxRetry(3),
		)
		if err != nil || info.State != asynq.TaskStatePending || info.Queue != "mail" || info.NextProcessAt.IsZero() {
			t.Fatalf("%+v, %v", info, err)
		}
	}
	if _, err := client.Enqueue(
		asynq.NewTask("email:send", []byte("0")), asynq.Queue("mail"), asynq.TaskID("t0"),
	); !errors.Is(err, asynq.ErrTaskIDConflict) {
		t.Errorf("the same id again: %v", err)
	}
	w := work(t, o, asynq.Config{
		Queues: map[string]int{"out": 1}, Concurrency: 10, TaskCheckInterval: 10 * time.Millisecond,
	})
	router := deliver.New(deliver.Options{Asynq: asynqtarget.Options{Redis: o}.Sender})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- drain.Run(ctx, e, router, drain.Options{}) }()
	w.wait(t, n)
	stop()
	if err := errors.Join(<-ended, router.Close()); err != nil {
		t.Error(err)
	}
	w.judge(t, rate)
	inspector := asynq.NewInspector(o)
	defer inspector.Close()
	info, err := inspector.GetTaskInfo("out", "t7")
	if err != nil || info.MaxRetry != 3 || string(info.Payload) != "7" || info.Headers[setting.HeaderQueue] != "mail" {
		t.Errorf("%+v, %v", info, err)
	}
}

// A job that is released again is in asynq once; another one of its id is told apart.
func TestReleasedAgain(t *testing.T) {
	_, o := redis(t)
	s := asynqtarget.New(asynqtarget.Options{Redis: o})
	defer s.Close()
	for range 2 {
		if err := s.Deliver(t.Context(), job("a"), gate{}, target()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Deliver(t.Context(), job("b"), gate{}, target()); !drain.IsPermanent(err) ||
		!strings.Contains(err.Error(), "another task") {
		t.Errorf("another job of the id: %v", err)
	}
	inspector := asynq.NewInspector(o)
	defer inspector.Close()
	info, err := inspector.GetQueueInfo("default")
	if err != nil || info.Size != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

// Of a task that has the job's id, and cannot be looked at, nobody knows whether it is the job's.
func TestWhoseTask(t *testing.T) {
	_, o := redis(t)
	s := asynqtarget.New(asynqtarget.Options{Redis: o})
	defer s.Close()
	r := o.MakeRedisClient().(goredis.UniversalClient)
	defer r.Close()
	if err := s.Deliver(t.Context(), job("a"), gate{}, target()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil   func() error
		trouble bool
	}{
		"gone": {func() error { return r.SRem(t.Context(), "asynq:queues", "default").Err() }, false},
		"broken": {func() error {
			return errors.Join(
				r.SAdd(t.Context(), "asynq:queues", "default").Err(), r.Set(t.Context(), "asynq:{default}:t:j1", "x", 0).Err(),
			)
		}, true},
	} {
		if err := c.spoil(); err != nil {
			t.Fatal(err)
		}
		err := s.Deliver(t.Context(), job("a"), gate{}, target())
		if said := drain.What(err); said.Verdict != queue.Hold || said.Trouble != c.trouble {
			t.Errorf("%s: %v %+v", name, err, said)
		}
	}
}

// closed is a gate that closed while this process stood still behind it.
type closed struct{ gate }

func (closed) Closes() time.Time { return time.Now().Add(-time.Second) }

func TestGateClosed(t *testing.T) {
	_, o := redis(t)
	s := asynqtarget.New(asynqtarget.Options{Redis: o})
	defer s.Close()
	if err := s.Deliver(t.Context(), job("a"), closed{}, target()); !errors.Is(err, drain.ErrLate) {
		t.Errorf("%v", err)
	}
	inspector := asynq.NewInspector(o)
	defer inspector.Close()
	if queues, err := inspector.Queues(); err != nil || len(queues) != 0 {
		t.Errorf("released: %v, %v", queues, err)
	}
}

// A task whose answer was lost is not released again behind the queue's back.
func TestAnswerLost(t *testing.T) {
	server, _ := redis(t)
	proxy, err := faultproxy.Start(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	s := asynqtarget.New(asynqtarget.Options{Redis: asynq.RedisClientOpt{Addr: proxy.Addr()}})
	defer s.Close()
	lost := proxy.Inject(faultproxy.Fault{On: faultproxy.Script("j1"), Do: faultproxy.SwallowReply})
	if err := s.Deliver(t.Context(), job("a"), gate{}, target()); drain.What(err).Verdict != queue.Hold {
		t.Errorf("%v: %v", drain.What(err), err)
	}
	if n := lost.Hits(); n != 1 {
		t.Errorf("it was released %d times", n)
	}
}

// Behind the gate a job waits for no connection, and for no answer to another: each is under way though none has
// landed.
func TestConnectionsForAll(t *testing.T) {
	n := 15 * runtime.GOMAXPROCS(0) // go-redis has 10 of each
	server, _ := redis(t)
	proxy, err := faultproxy.Start(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	s := asynqtarget.New(asynqtarget.Options{
		Redis: asynq.RedisClientOpt{Addr: proxy.Addr(), ReadTimeout: -1}, Concurrency: n,
	})
	defer s.Close()
	held := proxy.Inject(faultproxy.Fault{
		On: faultproxy.Named("EVALSHA", "EVAL"), Do: faultproxy.DelayReply, By: limit, Times: n,
	})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			j := job("a")
			j.ID = fmt.Sprint("j", i)
			_ = s.Deliver(t.Context(), j, gate{}, target())
		})
		await.Until(t, "under way", func() bool { return held.Hits() == i+1 })
	}
	held.Remove()
	all.Wait()
}

// wall is a gate that nobody should get to.
type wall struct{ t *testing.T }

func (w wall) Wait(context.Context) error { w.t.Error("the gate was passed"); return nil }
func (w wall) Closes() time.Time          { return time.Now().Add(limit) }

// A Redis that cannot be reached is found out before the departure.
func TestRedisIsAway(t *testing.T) {
	server, o := redis(t)
	s := asynqtarget.New(asynqtarget.Options{Redis: o})
	defer s.Close()
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(t.Context(), job("a"), wall{t}, target()); drain.What(err).Verdict != queue.Down {
		t.Errorf("%v: %v", drain.What(err), err)
	}
	// The operator's bound is over what targets and jobs say.
	bounded := asynqtarget.New(asynqtarget.Options{Redis: o, Prefix: "sms:"})
	defer bounded.Close()
	if err := bounded.Deliver(t.Context(), job("a"), wall{t}, target()); drain.What(err).Verdict != queue.Down ||
		!strings.Contains(err.Error(), "--asynq-prefix") {
		t.Errorf("a target beyond the prefix: %v", err)
	}
	chosen, choice := asynqtask.Default(), job("a")
	chosen.Tasks, choice.Headers = setting.Patterns{"*"}, map[string]string{asynqtask.HeaderTask: "email:send"}
	if err := bounded.Deliver(t.Context(), choice, wall{t}, chosen); drain.What(err).Verdict != queue.Bury ||
		!strings.Contains(err.Error(), "--asynq-prefix") {
		t.Errorf("a job beyond the prefix: %v", err)
	}
	none, lost := deliver.New(deliver.Options{}), job("a")
	defer none.Close()
	lost.Spec.Deliver = []byte(`{"asynq": {"task": "email:send"}}`)
	if err := none.Handle(t.Context(), lost, gate{}); drain.What(err).Verdict != queue.Down ||
		!strings.Contains(err.Error(), "--asynq-redis") {
		t.Errorf("without a Redis: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	e := engine(t, queue.Spec{Name: "default", Rate: leaky.PerSecond(1), Capacity: 1})
	client := asynqtarget.NewClient(e)
	task := asynq.NewTask("email:send", []byte("x"))
	if _, err := client.Enqueue(nil); err == nil {
		t.Error("no task was enqueued")
	}
	if _, err := client.Enqueue(task, asynq.Queue("nowhere")); !errors.Is(err, queue.ErrUnknownQueue) {
		t.Errorf("an unknown queue: %v", err)
	}
	if _, err := client.Enqueue(task, asynq.Unique(time.Hour)); err != nil {
		t.Error(err)
	}
	if _, err := client.Enqueue(task, asynq.Unique(time.Hour)); !errors.Is(err, asynq.ErrDuplicateTask) {
		t.Errorf("the same task: %v", err)
	}
	var refused *asynqtarget.Refused
	if _, err := client.Enqueue(task); !errors.As(err, &refused) || refused.Outcome != queue.Full ||
		refused.RetryAfter <= 0 {
		t.Errorf("a full queue: %v", err)
	}
	var field *invalid.Error
	if _, err := client.Enqueue(task, asynq.TaskID(strings.Repeat("x", 1000))); !errors.As(err, &field) {
		t.Errorf("a bad id: %v", err)
	}
}
