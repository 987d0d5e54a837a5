package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/penstock/penstock/client"
)

// throughProxy makes a call with net/http. With Ack, it calls that URL after each event of the answer.
func throughProxy(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[struct {
		Queue, Path, Method, Body, Ack, Lane, Retry string
		Cost                                        int64
		Costs                                       map[string]int64
		Priority                                    int
		Wait                                        float64
	}](r)
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(os.Getenv("PENSTOCK_TOKEN_FILE"))
	if err != nil {
		return nil, err
	}
	method := cmp.Or(a.Method, http.MethodGet)
	req, err := http.NewRequestWithContext(ctx, method, d.c.ProxyURL(a.Queue)+a.Path, strings.NewReader(a.Body))
	if err != nil {
		return nil, err
	}
	req.Header = client.ProxyOptions{
		Lane: a.Lane, Cost: a.Cost, Costs: a.Costs, Priority: a.Priority, Wait: seconds(a.Wait), Retry: a.Retry,
	}.Header()
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if p, is := client.ProblemOf(resp); is {
		return nil, p
	}
	body, err := readEvents(ctx, resp.Body, a.Ack)
	if err != nil {
		return nil, err
	}
	waited, err := strconv.ParseFloat(resp.Header.Get("Penstock-Waited"), 64)
	return map[string]any{
		"status": resp.StatusCode, "body": body, "waited": waited / 1000, "retry_after": resp.Header.Get("Retry-After"),
	}, err
}

// readEvents reads a body, and calls the URL ack after each event, unless ack is empty.
func readEvents(ctx context.Context, body io.Reader, ack string) (string, error) {
	var text strings.Builder
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadString('\n')
		text.WriteString(line)
		switch {
		case errors.Is(err, io.EOF):
			return text.String(), nil
		case err != nil:
			return "", err
		case ack == "" || line != "\n":
			continue
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, ack, nil)
		if err != nil {
			return "", err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		_ = resp.Body.Close()
	}
}
