// Command embed is a complete Penstock in one program: a queue on disk and its handler.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	engine, err := boltq.Open(ctx, "jobs.db", boltq.Options{}) // or redisq.Open(ctx, "redis://...", ...)
	if err != nil {
		return err
	}
	defer engine.Close()
	if _, err := engine.Put(ctx, queue.Spec{Name: "email", Rate: leaky.PerSecond(14)}, queue.AnyRevision); err != nil {
		return err
	}
	for i := range 50 {
		job := queue.Job{Queue: "email", ID: fmt.Sprint("welcome-", i), Payload: fmt.Appendf(nil, `{"user": %d}`, i)}
		answers, err := engine.Append(ctx, []queue.Job{job})
		if err != nil {
			return err
		}
		if a := answers[0]; a.Outcome != queue.Accepted && a.Outcome != queue.Duplicate {
			log.Printf("%s: %v; retry in %v", job.ID, a.Outcome, a.RetryAfter)
		}
	}
	return drain.Run(ctx, engine, drain.HandlerFunc(func(_ context.Context, job *drain.Job) error {
		fmt.Println(time.Now().Format("15:04:05.000"), job.ID, string(job.Payload)) // at most 14 times per second
		return nil
	}), drain.Options{})
}
