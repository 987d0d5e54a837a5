package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/penstock/penstock/client"
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

func turn(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[named](r)
	if err != nil {
		return nil, err
	}
	turn, err := d.c.TurnWith(ctx, a.Queue, client.TurnOptions{
		Wait: seconds(a.Wait), Costs: a.Costs, ReportWithin: seconds(a.Within),
	})
	if err != nil {
		return nil, err
	}
	if a.Actual != nil {
		err = turn.ReportActual(ctx, a.Actual)
	}
	return map[string]any{"waited": turn.Waited.Seconds(), "costs": turn.Costs}, err
}

func pacedGet(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[named](r)
	if err != nil {
		return nil, err
	}
	paced := &client.Transport{Client: d.c, Queue: a.Queue, Wait: seconds(a.Wait)}
	if a.Costs != nil {
		paced.Costs = func(*http.Request) map[string]int64 { return a.Costs }
	}
	if a.Actual != nil {
		paced.Actual = func(*http.Response, []byte) map[string]int64 { return a.Actual }
	}
	hc := &http.Client{Transport: paced}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return map[string]any{"status": resp.StatusCode}, err
}
