package redisq_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

func TestSmoke(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	ctx := context.Background()
	now := leaky.Instant(1_000_000_000_000)
	e, err := redisq.Open(ctx, s.Client(), redisq.Options{Init: true, Now: func() leaky.Instant { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r, err := e.Put(ctx, queue.Spec{Name: "email", Rate: leaky.PerSecond(14), Capacity: 20}, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%+v\n", r)
	var jobs []queue.Job
	for i := range 25 {
		jobs = append(jobs, queue.Job{Queue: "email", ID: fmt.Sprint("j", i), Payload: []byte("hello")})
	}
	a, err := e.Append(ctx, jobs)
	fmt.Printf("%+v %v\n", a, err)
	c := queue.Client{ID: "c1", Name: "n", Version: "v"}
	for i := range 5 {
		res, err := e.Reserve(ctx, queue.ReserveRequest{Partition: e.Partition("email"), Client: c, Number: uint64(i), Max: 10})
		fmt.Printf("%+v %v\n", res, err)
		for k, j := range res.Jobs {
			st, err := e.Settle(ctx, []queue.Settlement{{Lease: queue.Lease{Queue: "email", ID: j.ID, Fence: j.Fence}, Verdict: queue.Verdict((i+k)%4 + 1), Reason: "x", After: time.Second}})
			fmt.Printf("   %+v %v\n", st, err)
		}
		ji, err := e.Job(ctx, "email", fmt.Sprint("j", i))
		fmt.Printf(" %+v %v\n", ji, err)
		now += 100_000
	}
	info, err := e.Get(ctx, "email")
	fmt.Printf("%+v %v\n", info, err)
	tt, err := e.Totals(ctx)
	fmt.Println(tt, err)
	fmt.Println(e.Drainers(ctx))
	fmt.Println(e.Delete(ctx, "email", -1, false), e.Delete(ctx, "email", -1, true))
	fmt.Println(e.Sweep(ctx, e.Partition("email")))
	keys, _ := s.Client().Keys(ctx, "*").Result()
	fmt.Println(keys)
}
