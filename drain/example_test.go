package drain_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// The whole of Penstock in one program: a durable queue in a file, and a func that gets its jobs at the queue's rate.
func Example() {
	dir, err := os.MkdirTemp("", "penstock")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext, in a program
	defer stop()

	engine, err := boltq.Open(ctx, filepath.Join(dir, "jobs"), boltq.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()

	// 100 departures a second, over all drainers of this queue.
	_, err = engine.Put(ctx, queue.Spec{Name: "mail", Rate: leaky.PerSecond(100), Capacity: 1000}, queue.AnyRevision)
	if err != nil {
		log.Fatal(err)
	}

	// A job is on disk once Append has answered Accepted. A full queue answers Full, and when to retry.
	answers, err := engine.Append(ctx, []queue.Job{
		{Queue: "mail", ID: "welcome-1", Payload: []byte(`{"to": "a@example.com"}`)},
		{Queue: "mail", ID: "welcome-2", Payload: []byte(`{"to": "b@example.com"}`)},
		{Queue: "mail", ID: "welcome-1", Payload: []byte(`{"to": "a@example.com"}`)}, // once in
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range answers {
		fmt.Println(a.ID, a.Outcome)
	}

	sent := 0
	handler := drain.HandlerFunc(func(ctx context.Context, job *drain.Job) error {
		fmt.Printf("%s at attempt %d: %s\n", job.ID, job.Attempt, job.Payload)
		if sent++; sent == 2 {
			stop()
		}
		return nil // or an error, to be retried; or drain.Permanent(err)
	})
	// One handler at a time here, for the sake of the output's order.
	if err := drain.Run(ctx, engine, handler, drain.Options{Concurrency: 1}); err != nil {
		log.Fatal(err)
	}

	// Output:
	// welcome-1 accepted
	// welcome-2 accepted
	// welcome-1 duplicate
	// welcome-1 at attempt 1: {"to": "a@example.com"}
	// welcome-2 at attempt 1: {"to": "b@example.com"}
}

// A handler's error decides what happens to the job and to its queue.
func ExampleThrottled() {
	dir, err := os.MkdirTemp("", "penstock")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine, err := boltq.Open(ctx, filepath.Join(dir, "jobs"), boltq.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	if _, err = engine.Put(ctx, queue.Spec{Name: "sms", Rate: leaky.PerSecond(100)}, queue.AnyRevision); err != nil {
		log.Fatal(err)
	}
	if _, err = engine.Append(ctx, []queue.Job{
		{Queue: "sms", ID: "a"}, {Queue: "sms", ID: "b"}, {Queue: "sms", ID: "c"},
	}); err != nil {
		log.Fatal(err)
	}

	// The provider's answers.
	answers := map[string][]string{"a": {"too many requests", "ok"}, "b": {"no such number"}, "c": {"ok"}}
	left := 4
	handler := drain.HandlerFunc(func(_ context.Context, job *drain.Job) error {
		answer := answers[job.ID][0]
		answers[job.ID] = answers[job.ID][1:]
		if left--; left == 0 {
			defer stop()
		}
		fmt.Printf("%s, attempt %d: %s\n", job.ID, job.Attempt, answer)
		switch answer {
		case "too many requests": // nothing leaves the queue until then, on any drainer; no attempt is spent
			return drain.Throttled(time.Now().Add(100 * time.Millisecond))
		case "no such number":
			return drain.Permanent(errors.New(answer)) // a dead letter
		}
		return nil
	})
	if err := drain.Run(ctx, engine, handler, drain.Options{Concurrency: 1}); err != nil {
		log.Fatal(err)
	}

	// Jobs granted before the provider complained still leave, so the order may differ.

	// Unordered output:
	// a, attempt 1: too many requests
	// a, attempt 1: ok
	// b, attempt 1: no such number
	// c, attempt 1: ok
}
