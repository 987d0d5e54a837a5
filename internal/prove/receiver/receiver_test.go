package receiver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/prove/receiver"
)

func serve(t *testing.T, o receiver.Options) *receiver.Receiver {
	t.Helper()
	r, err := receiver.Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return r
}

func post(t *testing.T, url, id, attempt string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"to":"a@example.com"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(receiver.HeaderID, id)
	req.Header.Set(receiver.HeaderAttempt, attempt)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestRecordsArrivals(t *testing.T) {
	r := serve(t, receiver.Options{})
	if status := post(t, r.URL()+"/jobs", "a", "1"); status != http.StatusNoContent {
		t.Errorf("status %d", status)
	}
	post(t, r.URL()+"/other", "b", "many")
	got := r.Arrivals(0)
	if len(got) != 2 || r.Count() != 2 {
		t.Fatalf("%d arrivals", len(got))
	}
	if a := got[0]; a.ID != "a" || a.Attempt != 1 || a.Path != "/jobs" || a.Status != 204 || a.At <= 0 {
		t.Errorf("%+v", a)
	}
	if b := got[1]; b.ID != "b" || b.Attempt != 0 || b.At < got[0].At {
		t.Errorf("%+v", b)
	}
	if r.Arrivals(2) != nil || len(r.Arrivals(1)) != 1 {
		t.Error("from")
	}
}

func TestRecordsRefusedRequests(t *testing.T) {
	r := serve(t, receiver.Options{Answer: func(a receiver.Arrival) int {
		if a.ID == "bad" {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}})
	if status := post(t, r.URL(), "bad", "1"); status != http.StatusServiceUnavailable {
		t.Errorf("status %d", status)
	}
	if a := r.Arrivals(0)[0]; a.Status != http.StatusServiceUnavailable {
		t.Errorf("%+v", a)
	}
}

func TestManyAtOnce(t *testing.T) {
	r := serve(t, receiver.Options{})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() { post(t, r.URL(), fmt.Sprint("job-", i), "1") })
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, a := range r.Arrivals(0) {
		seen[a.ID] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d of 50 recorded", len(seen))
	}
}
