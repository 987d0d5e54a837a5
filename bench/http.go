package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/leaky"
)

// bareAnswer is the bare handler's answer, as long as a real one.
type bareAnswer struct {
	ID       string `json:"id"`
	State    string `json:"state"`
	Position int64  `json:"position"`
	ETA      struct {
		At    time.Time `json:"at"`
		Exact bool      `json:"exact"`
	} `json:"eta"`
}

// bare reads, decodes and answers, without anything in between.
func bare(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 2<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var job struct {
		ID      string          `json:"id"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(body, &job); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a := bareAnswer{ID: job.ID, State: "waiting", Position: 1}
	a.ETA.At = time.Now()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(a)
}

// serve serves h on loopback.
func serve(h http.Handler) (url string, closeIt func(), err error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	return "http://" + l.Addr().String(), func() { _ = s.Close(); <-done }, nil
}

// post sends one job a request.
func post(client *http.Client, url string) func(context.Context) error {
	filler := bytes.Repeat([]byte("x"), payloadBytes-20)
	return func(ctx context.Context) error {
		body := fmt.Appendf(make([]byte, 0, 400), `{"id":"%s","payload":{"to":"a","text":"%s"}}`, newID(), filler)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusAccepted {
			err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
		}
		return err
	}
}

var ingressHTTP = Figure{
	Name: "ingress-http", Unit: "jobs/s, 1 job per request, 64 connections",
	Floor: "bare handler: read, decode, answer", Goal: "0.5 x the floor",
	Met: func(ours, _, floor float64) bool { return ours >= 0.5*floor },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		m := Measurements{Close: s.Close}
		if err := put(ctx, s.engine, queueName, leaky.Unlimited); err != nil {
			return m, err
		}
		ours, closeOurs, err := serve(api.New(s.engine, api.Options{}))
		if err != nil {
			return m, err
		}
		s.close = append(s.close, closeOurs)
		floor, closeFloor, err := serve(http.HandlerFunc(bare))
		if err != nil {
			return m, err
		}
		transport := &http.Transport{MaxIdleConnsPerHost: callers, MaxConnsPerHost: callers}
		s.close = append(s.close, closeFloor, transport.CloseIdleConnections)
		client := &http.Client{Transport: transport}
		count := sized(40_000)
		path := "/v1/queues/" + queueName + "/jobs"
		m.Ours = func(ctx context.Context) (float64, error) {
			return together(ctx, callers, count, post(client, ours+path))
		}
		m.Floor = func(ctx context.Context) (float64, error) {
			return together(ctx, callers, count, post(client, floor+path))
		}
		return m, nil
	},
}
