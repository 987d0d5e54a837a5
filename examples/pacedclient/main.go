// Command pacedclient calls a partner's API with at most 5 requests per second over all goroutines, and over all
// processes on one store: each request waits for its turn.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: pacedclient URL, for example http://127.0.0.1:9000/ of penstock sink")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	engine, err := boltq.Open(ctx, "turns.db", boltq.Options{}) // or redisq.Open(ctx, "redis://...", ...)
	if err != nil {
		return err
	}
	defer engine.Close()
	spec := queue.Spec{Name: "partner", Rate: leaky.PerSecond(5), Pull: true}
	if _, err := engine.Put(ctx, spec, queue.AnyRevision); err != nil {
		return err
	}
	dispatcherCtx, stop := context.WithCancel(context.WithoutCancel(ctx)) // runs until all requests have their turn
	dispatcher := pull.New(engine, pull.Options{})
	over := make(chan error, 1)
	go func() { over <- dispatcher.Run(dispatcherCtx) }()
	turns := pull.NewTurns(engine, dispatcher, "partner")

	client := &http.Client{Transport: &pull.Transport{Turns: turns, Within: 10 * time.Second}}
	var calls sync.WaitGroup
	for i := range 10 {
		calls.Go(func() { call(ctx, client, url, i) })
	}
	calls.Wait()
	turns.Close()
	stop()
	return <-over
}

func call(ctx context.Context, client *http.Client, url string, i int) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		log.Print(err)
		return
	}
	response, err := client.Do(request)
	var later *pull.Later
	switch {
	case errors.As(err, &later): // the turn would not come within 10 s
		fmt.Printf("call %d: retry in %v\n", i, later.In)
	case err != nil:
		log.Print(err)
	default:
		_ = response.Body.Close()
		fmt.Println(time.Now().Format("15:04:05.000"), "call", i, response.Status)
	}
}
