// Command client_producer appends a stream of jobs to a queue. When the queue is full, the stream waits for room, and
// takes no further jobs from its source.
package main

import (
	"context"
	"fmt"
	"iter"
	"log"
	"os"
	"os/signal"

	"github.com/penstock/penstock/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	penstock, err := client.New("") // PENSTOCK_URL and PENSTOCK_TOKEN
	if err != nil {
		return err
	}
	if _, err := penstock.PutQueue(ctx, "resize", client.Spec{Rate: "20/s", Pull: true, Capacity: 50}); err != nil {
		return err
	}
	accepted := 0
	for job, err := range penstock.AppendStream(ctx, "resize", images(100)) {
		if err != nil {
			return fmt.Errorf("job %s: %w", job.ID, err)
		}
		accepted++
	}
	fmt.Println(accepted, "jobs accepted")
	return nil
}

// images yields jobs. Their ids come from the source, so a second run appends nothing again.
func images(n int) iter.Seq[client.Job] {
	return func(yield func(client.Job) bool) {
		for i := range n {
			if !yield(client.Job{ID: fmt.Sprint("image-", i), Payload: map[string]int{"image": i}}) {
				return
			}
		}
	}
}
