package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// timeTurns takes turns by the client and by bare requests, one of each at a time, and returns how long each took in
// seconds, for the benchmarks.
func timeTurns(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[struct {
		Queue, URL string
		Count      int
	}](r)
	if err != nil {
		return nil, err
	}
	bare := func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL, strings.NewReader(`{"wait":"30s"}`))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	through := func() error {
		_, err := d.c.Turn(ctx, a.Queue, 30*time.Second)
		return err
	}
	took := map[string][]float64{}
	for range a.Count {
		for name, turn := range map[string]func() error{"bare": bare, "client": through} {
			began := time.Now()
			if err := turn(); err != nil {
				return nil, err
			}
			took[name] = append(took[name], time.Since(began).Seconds())
		}
	}
	return took, nil
}
