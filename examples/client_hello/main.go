// Command client_hello appends a job, works on it, and waits until it is done.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/penstock/penstock/client"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	penstock, err := client.New("") // PENSTOCK_URL and PENSTOCK_TOKEN
	if err != nil {
		return err
	}
	if _, err := penstock.PutQueue(ctx, "hello", client.Spec{Rate: "5/s", Pull: true}); err != nil {
		return err
	}
	job, err := penstock.Append(ctx, "hello", client.Job{Payload: map[string]string{"to": "you"}})
	if err != nil {
		return err
	}
	fmt.Println("appended", job.ID, job.State)

	working, stop := context.WithCancel(ctx)
	defer stop()
	worker := &client.Worker{Client: penstock, Queue: "hello", Handler: func(_ context.Context, task *client.Task) error {
		fmt.Println("working on", string(task.Payload))
		return nil
	}}
	over := make(chan error, 1)
	go func() { over <- worker.Run(working) }()

	done, err := penstock.Wait(ctx, "hello", job.ID)
	if err != nil {
		return err
	}
	fmt.Println("it is", done.State)
	stop()
	return <-over
}
