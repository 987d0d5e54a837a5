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
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// deliverHTTP is all that lies between a full queue on Redis and a receiver: reserve, the gate, post, settle; beside
// somebody who posts the same bodies from as many goroutines, with nothing to ask and to tell.
var deliverHTTP = Figure{
	Name: "deliver-http", Unit: "deliveries/s from a queue on Redis, 64 at once, rate unlimited",
	Peer: "net/http's client, 64 goroutines", Goal: "0.5 x net/http",
	Met: func(ours, peer, _ float64) bool { return ours >= 0.5*peer },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		m := Measurements{Close: s.Close}
		url, closeInbox, err := serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
		if err != nil {
			return m, err
		}
		guard, err := egress.New(egress.Loopback...)
		if err != nil {
			return m, err
		}
		router := deliver.New(deliver.Options{Concurrency: callers, Egress: guard})
		transport := &http.Transport{MaxIdleConnsPerHost: callers, MaxConnsPerHost: callers}
		s.close = append(s.close, closeInbox, func() { _ = router.Close() }, transport.CloseIdleConnections)
		target, err := json.Marshal(map[string]any{"http": map[string]any{"url": url}})
		if err != nil {
			return m, err
		}
		const count = 30_000
		m.Ours = func(ctx context.Context) (float64, error) {
			if err := s.again(ctx); err != nil {
				return 0, err
			}
			spec := queue.Spec{Name: queueName, Rate: leaky.Unlimited, Capacity: queue.MaxCapacity, Deliver: target}
			if _, err := s.engine.Put(ctx, spec, queue.AnyRevision); err != nil {
				return 0, err
			}
			if err := fill(ctx, s.engine, queueName, count); err != nil {
				return 0, err
			}
			return deliverFor(ctx, s.engine, router, count, callers)
		}
		client := &http.Client{Transport: transport}
		m.Peer = func(ctx context.Context) (float64, error) {
			return together(ctx, callers, count, func(ctx context.Context) error { return postPlain(ctx, client, url) })
		}
		return m, nil
	},
}

// postPlain posts what a job carries.
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
