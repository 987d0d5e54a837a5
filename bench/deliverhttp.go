package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
)

// deliverHTTP measures the whole path from a full queue to a receiver: reserve, the gate, post, settle. The peer posts
// the same bodies from as many goroutines without any bookkeeping. share is the goal, relative to the peer.
func deliverHTTP(name, where string, share float64, open func(context.Context) (store, error)) Figure {
	return Figure{
		Name: name, Unit: "deliveries/s " + where + ", 64 at once",
		Peer: "net/http's client, 64 goroutines", Floor: nothing, Goal: fmt.Sprintf("%v x net/http", share),
		Met: func(ours, peer, _ float64) bool { return ours >= share*peer },
		Setup: func(ctx context.Context) (Measurements, error) {
			s, err := open(ctx)
			if err != nil {
				return Measurements{}, err
			}
			m := Measurements{Close: s.Close}
			url, closeInbox, err := serve(http.HandlerFunc(
				func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
			))
			if err != nil {
				return m, err
			}
			guard, err := egress.New(egress.Loopback...)
			if err != nil {
				closeInbox()
				return m, err
			}
			router := deliver.New(deliver.Options{Concurrency: callers, Egress: guard})
			transport := &http.Transport{MaxIdleConnsPerHost: callers, MaxConnsPerHost: callers}
			m.Close = func() { transport.CloseIdleConnections(); _ = router.Close(); closeInbox(); s.Close() }
			target, err := json.Marshal(map[string]any{"http": map[string]any{"url": url}})
			if err != nil {
				return m, err
			}
			count := sized(30_000)
			took := bill{}
			m.Ours = func(ctx context.Context) (float64, error) {
				e, err := full(ctx, s, target, count)
				if err != nil {
					return 0, err
				}
				return took.charge(ctx, "ours", count, []meter{{"its store", s.used}}, func() (float64, error) {
					return deliverFor(ctx, e, router, count, callers)
				})
			}
			client := &http.Client{Transport: transport}
			m.Peer = func(ctx context.Context) (float64, error) {
				return took.charge(ctx, "peer", count, nil, func() (float64, error) {
					return together(ctx, callers, count, func(ctx context.Context) error { return postPlain(ctx, client, url) })
				})
			}
			m.Floor = drained(s, count, callers)
			m.Notes = func() string { return took.String() + "; both including the receiver's, of the last round" }
			return m, nil
		},
	}
}

// postPlain posts a job's payload.
func postPlain(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	return err
}
