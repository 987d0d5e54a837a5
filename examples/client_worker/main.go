// Command client_worker works on the jobs of a queue until it is interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/penstock/penstock/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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
	worker := &client.Worker{Client: penstock, Queue: "resize", Handler: resize, Concurrency: 10}
	return worker.Run(ctx)
}

// resize works on a job. The error decides what becomes of it.
func resize(ctx context.Context, task *client.Task) error {
	var job struct {
		Image int `json:"image"`
	}
	if err := task.Decode(&job); err != nil {
		return client.Dead(err.Error()) // a retry cannot help
	}
	err := render(ctx, job.Image)
	if errors.Is(err, errBusy) {
		return client.Throttled(5*time.Second, "the renderer is busy") // the queue stops for 5 s
	}
	return err // nil: delivered; anything else: retried
}

var errBusy = errors.New("busy")

func render(_ context.Context, image int) error {
	fmt.Println("image", image)
	return nil
}
