// Command llm_worker calls a provider with the jobs of llm.batch (see llm.yaml), and reports what each has used.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/penstock/penstock/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	penstock, err := client.New("") // PENSTOCK_URL and PENSTOCK_TOKEN
	if err != nil {
		log.Fatal(err)
	}
	worker := &client.Worker{Client: penstock, Queue: "llm.batch", Handler: call, Concurrency: 50}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// call sends a job's payload, which is a request for a chat completion.
func call(ctx context.Context, task *client.Task) error {
	url := os.Getenv("OPENAI_BASE_URL") + "/chat/completions"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(task.Payload))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		task.ReportActual(map[string]int64{"tokens": 0})
		after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return client.Throttled(time.Duration(after)*time.Second, "the provider answered 429") // the queue stops
	case resp.StatusCode/100 == 4:
		return client.Dead(resp.Status)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the provider answered %s", resp.Status) // a retry
	}
	var answer struct {
		Usage struct {
			Tokens int64 `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	task.ReportActual(map[string]int64{"tokens": answer.Usage.Tokens})
	fmt.Println(task.ID, answer.Usage.Tokens, "tokens")
	return nil
}
