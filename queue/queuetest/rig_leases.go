package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func (r *rig) request(client, queueName string, most int) queue.ReserveRequest {
	p := r.partition(queueName)
	key := fmt.Sprint(client, " ", p)
	r.numbers[key]++
	return queue.ReserveRequest{
		Partition: p, Number: r.numbers[key], Max: most,
		Client: queue.Client{ID: client, Name: client + "@bench", Version: "1"},
	}
}

func (r *rig) do(req queue.ReserveRequest) queue.Reserved {
	r.Helper()
	res, err := r.e.Reserve(r.ctx, req)
	if err != nil {
		r.Fatalf("reserve: %v", err)
	}
	if len(res.Jobs) > req.Max {
		r.Fatalf("reserve: %d jobs granted, at most %d asked for", len(res.Jobs), req.Max)
	}
	for _, v := range res.Jobs {
		if v.Fence == "" || v.In > queue.Horizon {
			r.Fatalf("reserve: %s/%s has the fence %q and departs in %v", v.Queue, v.ID, v.Fence, v.In)
		}
	}
	return res
}

// reserveAs reserves as the named client, in the partition of the queue.
func (r *rig) reserveAs(client, queueName string, most int) queue.Reserved {
	r.Helper()
	return r.do(r.request(client, queueName, most))
}

// reserve reserves as the only client.
func (r *rig) reserve(queueName string, most int) []queue.Reservation {
	r.Helper()
	return r.reserveAs("client", queueName, most).Jobs
}

// grant reserves jobs and checks their ids and order.
func (r *rig) grant(queueName string, most int, want ...string) []queue.Reservation {
	r.Helper()
	got := r.reserve(queueName, most)
	r.sameIDs(got, want...)
	return got
}

func (r *rig) sameIDs(got []queue.Reservation, want ...string) {
	r.Helper()
	if have := ids(got); !slices.Equal(have, want) {
		r.Fatalf("granted %v, want %v", have, want)
	}
}

func ids(list []queue.Reservation) []string {
	have := make([]string, len(list))
	for i := range list {
		have[i] = list[i].ID
	}
	return have
}

// departure returns when a job leaves, provided the clock has not moved since the grant.
func (r *rig) departure(v queue.Reservation) leaky.Instant { return r.clock.Now().Add(v.In) }

func lease(v queue.Reservation) queue.Lease {
	return queue.Lease{Queue: v.Queue, ID: v.ID, Fence: v.Fence}
}

func settlement(verdict queue.Verdict, v queue.Reservation) queue.Settlement {
	return queue.Settlement{Lease: lease(v), Verdict: verdict}
}

func (r *rig) settle(list ...queue.Settlement) []queue.Settled {
	r.Helper()
	out, err := r.e.Settle(r.ctx, list)
	if err != nil {
		r.Fatalf("settle: %v", err)
	}
	if len(out) != len(list) {
		r.Fatalf("settle: %d answers to %d settlements", len(out), len(list))
	}
	return out
}

// settled settles and checks the resulting state.
func (r *rig) settled(want queue.State, s queue.Settlement) {
	r.Helper()
	if got := r.settle(s)[0]; got.Stale || got.Err != nil || got.State != want {
		r.Fatalf("%v of %s/%s: %+v, want %v", s.Verdict, s.Queue, s.ID, got, want)
	}
}

func (r *rig) stale(s queue.Settlement) {
	r.Helper()
	if got := r.settle(s)[0]; !got.Stale || got.Err != nil || got.State != queue.StateNone {
		r.Fatalf("%v of %s/%.40s by %.40q: %+v, want stale", s.Verdict, s.Queue, s.ID, string(s.Fence), got)
	}
}

func (r *rig) deliver(list ...queue.Reservation) {
	r.Helper()
	for _, v := range list {
		r.settled(queue.Delivered, settlement(queue.Deliver, v))
	}
}

// fail settles jobs as failed, to be retried after some time.
func (r *rig) fail(after time.Duration, list ...queue.Reservation) {
	r.Helper()
	for _, v := range list {
		s := settlement(queue.Fail, v)
		s.After, s.Reason = after, "it failed"
		r.settled(queue.Scheduled, s)
	}
}

func (r *rig) release(list ...queue.Reservation) {
	r.Helper()
	for _, v := range list {
		r.settled(queue.Waiting, settlement(queue.Release, v))
	}
}

// extend extends a lease, which must then last for left; 0 means that the lease must be lost.
func (r *rig) extend(v queue.Reservation, left time.Duration) {
	r.Helper()
	if out := r.extended(v); out.Left != left {
		r.Fatalf("extend %s/%s at %v: %v; want %v", v.Queue, v.ID, r.clock.Now().Time(), out, left)
	}
}

// extended extends a lease and returns the answer.
func (r *rig) extended(v queue.Reservation) queue.Extended {
	r.Helper()
	out, err := r.e.Extend(r.ctx, []queue.Lease{lease(v)})
	if err != nil || len(out) != 1 || out[0].Err != nil {
		r.Fatalf("extend %s/%s at %v: %+v, %v", v.Queue, v.ID, r.clock.Now().Time(), out, err)
	}
	return out[0]
}

// leftOf returns how long the extended leases last.
func leftOf(answers []queue.Extended) []time.Duration {
	left := make([]time.Duration, len(answers))
	for i := range answers {
		left[i] = answers[i].Left
	}
	return left
}
