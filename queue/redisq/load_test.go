package redisq_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// load appends to a queue and drains it, and keeps the accounts.
type load struct {
	t       *testing.T
	e       *redisq.Engine
	queue   string
	ctx     context.Context
	stop    func()
	running sync.WaitGroup

	producing atomic.Int64
	delivered atomic.Int64
	mu        sync.Mutex
	accepted  map[string]bool
	granted   map[string]int
}

func newLoad(t *testing.T, e *redisq.Engine, name string) *load {
	l := &load{t: t, e: e, queue: name, accepted: map[string]bool{}, granted: map[string]int{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	t.Cleanup(l.running.Wait)
	t.Cleanup(l.stop)
	l.producing.Store(2)
	for i := range 2 {
		l.running.Go(func() { l.produce(i) })
		l.running.Go(func() { l.drain(i) })
	}
	return l
}

// again reports whether an error is one after which everybody asks again.
func again(err error) bool {
	return errors.Is(err, queue.ErrUnavailable) || errors.Is(err, queue.ErrOutcomeUnknown)
}

func (l *load) produce(n int) {
	defer l.producing.Add(-1)
	for i := 0; l.ctx.Err() == nil; i++ {
		j := queue.Job{Queue: l.queue, ID: fmt.Sprintf("p%d-%d", n, i), Payload: []byte("{}")}
		for done := false; !done && !l.failed(); {
			a, err := l.e.Append(context.Background(), []queue.Job{j})
			switch {
			case err != nil && again(err):
			case err != nil:
				l.t.Errorf("append %s: %v", j.ID, err)
				return
			case a[0].Outcome == queue.Accepted || a[0].Outcome == queue.Duplicate:
				l.mu.Lock()
				l.accepted[j.ID] = true
				l.mu.Unlock()
				done = true
			case a[0].Outcome == queue.Full:
				time.Sleep(time.Millisecond) // a producer that is throttled
			default:
				l.t.Errorf("append %s: %+v", j.ID, a[0])
				return
			}
		}
	}
}

// failed reports whether the test is lost, and there may be no end to wait for.
func (l *load) failed() bool { return l.ctx.Err() != nil && l.t.Failed() }

// drain goes on until the load was stopped and all of it is delivered.
func (l *load) drain(n int) {
	client := queue.Client{ID: fmt.Sprintf("%s-%d", l.queue, n)}
	for number := uint64(1); ; number++ {
		r, err := l.e.Reserve(context.Background(), queue.ReserveRequest{
			Partition: l.e.Partition(l.queue),
			Client:    client, Number: number, Max: 20,
		})
		for ; err != nil; r, err = l.e.Reserve(context.Background(),
			queue.ReserveRequest{Partition: l.e.Partition(l.queue), Client: client, Number: number, Max: 20}) {
			if l.failed() {
				return
			}
			if !again(err) {
				l.t.Errorf("reserve: %v", err)
				return
			}
		}
		l.mu.Lock()
		for _, j := range r.Jobs {
			l.granted[j.ID]++
		}
		l.mu.Unlock()
		for pending := deliver(r.Jobs...); len(pending) > 0 && !l.failed(); {
			answers, _ := l.e.Settle(context.Background(), pending)
			var left []queue.Settlement
			for i, a := range answers {
				switch {
				case again(a.Err):
					left = append(left, pending[i])
				case a.Err != nil || a.State != queue.Delivered:
					l.t.Errorf("settle %s: %+v", pending[i].ID, a)
				default:
					l.delivered.Add(1)
				}
			}
			pending = left
		}
		if len(r.Jobs) == 0 {
			l.mu.Lock()
			over := l.producing.Load() == 0 && int(l.delivered.Load()) >= len(l.accepted) || l.failed()
			l.mu.Unlock()
			if over {
				return
			}
			time.Sleep(min(r.Next, 5*time.Millisecond)) // as a drainer does
		}
	}
}

// goesOn returns when n more jobs were delivered.
func (l *load) goesOn(t *testing.T, when string, n int64) {
	t.Helper()
	until := l.delivered.Load() + n
	for deadline := time.Now().Add(30 * time.Second); l.delivered.Load() < until; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) || l.t.Failed() {
			t.Fatalf("%s: %s does not go on", when, l.queue)
		}
	}
}

// account compares, after the end, what came in with what came out.
func (l *load) account() {
	l.t.Helper()
	l.stop()
	l.running.Wait()
	for id := range l.accepted {
		if n := l.granted[id]; n != 1 {
			l.t.Errorf("%s of %s was granted %d times", id, l.queue, n)
		}
	}
	i, err := l.e.Get(context.Background(), l.queue)
	n := int64(len(l.accepted))
	if err != nil || len(l.granted) != len(l.accepted) || i.Size() != 0 || i.Appended != n || i.Delivered != n ||
		i.Expired != 0 {
		l.t.Errorf("%s: %d accepted, %d granted; the engine says %d appended, %d delivered, %d expired, %d there, %v",
			l.queue, n, len(l.granted), i.Appended, i.Delivered, i.Expired, i.Size(), err)
	}
}

// hold takes one job that is not settled before the test does.
func (l *load) hold(v *env) queue.Reservation {
	v.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		request := v.request(l.queue)
		request.Max = 1
		r, err := l.e.Reserve(v.ctx, request)
		if err != nil {
			v.t.Fatal(err)
		}
		if len(r.Jobs) == 1 {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.granted[r.Jobs[0].ID]++
			return r.Jobs[0]
		}
		if time.Now().After(deadline) {
			v.t.Fatal("there is no job to hold")
		}
	}
}
