// Command producer appends jobs to a queue over HTTP, with only Go's standard library. If the queue is full, it retries
// at the given time with the same ids, so that no job is lost or duplicated. PENSTOCK_TOKEN is its token.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: producer SERVER QUEUE, for example http://127.0.0.1:8080 email")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for i := range 20 {
		// The id comes from the event: appended again, it is the same job.
		job := map[string]any{"id": fmt.Sprint("signup-", i), "payload": map[string]int{"user": i}}
		if err := appendJob(ctx, os.Args[1]+"/v1/queues/"+os.Args[2]+"/jobs", job); err != nil {
			log.Fatal(err)
		}
	}
}

func appendJob(ctx context.Context, url string, job any) error {
	body, err := json.Marshal(job)
	if err != nil {
		return err
	}
	for {
		wait, err := attempt(ctx, url, body)
		if err != nil {
			return err
		}
		if wait == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// attempt returns 0 if the job is accepted, or the time to wait before the next attempt. An error means that the job
// can never be accepted.
func attempt(ctx context.Context, url string, body []byte) (wait time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("PENSTOCK_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Print(err) // the outcome is unknown; because of its id, the job can be sent again
		return time.Second, ctx.Err()
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10)) // print what arrived
	fmt.Printf("%s %s", response.Status, answer)
	var problem struct {
		RetryAfterMS int64 `json:"retry_after_ms"`
	}
	_ = json.Unmarshal(answer, &problem) // a proxy may answer anything
	switch status := response.StatusCode; {
	case status == http.StatusOK, status == http.StatusAccepted: // 200 is a duplicate
		return 0, nil
	case status == http.StatusTooManyRequests, status >= 500:
		if wait := time.Duration(problem.RetryAfterMS) * time.Millisecond; wait > 0 {
			return wait, nil // exact; the header has whole seconds
		}
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 without one
		return time.Duration(max(1, seconds)) * time.Second, nil
	}
	return 0, fmt.Errorf("%s: %s", response.Status, answer)
}
