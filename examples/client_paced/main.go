// Command client_paced calls an API with at most 5 requests per second, over all processes that use the queue.
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

	"github.com/penstock/penstock/client"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: client_paced URL, for example http://127.0.0.1:9000/ of penstock sink")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	penstock, err := client.New("") // PENSTOCK_URL and PENSTOCK_TOKEN
	if err != nil {
		return err
	}
	if _, err := penstock.PutQueue(ctx, "partner", client.Spec{Rate: "5/s", Pull: true}); err != nil {
		return err
	}
	paced := &http.Client{Transport: &client.Transport{Client: penstock, Queue: "partner", Wait: 10 * time.Second}}
	var calls sync.WaitGroup
	for i := range 10 {
		calls.Go(func() { call(ctx, paced, url, i) })
	}
	calls.Wait()
	return nil
}

func call(ctx context.Context, paced *http.Client, url string, i int) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		log.Print(err)
		return
	}
	response, err := paced.Do(request) // waits for its turn
	var refused *client.Problem
	switch {
	case errors.As(err, &refused) && refused.Reason == client.ReasonNoTurn: // not within 10 s
		fmt.Printf("call %d: retry in %v\n", i, refused.RetryAfter())
	case err != nil:
		log.Print(err)
	default:
		_ = response.Body.Close()
		fmt.Println(time.Now().Format("15:04:05.000"), "call", i, response.Status)
	}
}
