// Command driver lets a test call package client from outside: each line of input is a request, and each line of output
// an answer. Several requests may be under way.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/penstock/penstock/client"
)

// request is a line of input.
type request struct {
	N       int             `json:"n"`
	Call    string          `json:"call"`
	Args    json.RawMessage `json:"args"`
	Options struct {
		Timeout     float64 `json:"timeout"`
		Traceparent string  `json:"traceparent"`
	} `json:"options"`
}

// failure is how an error is written.
type failure struct {
	Kind       string  `json:"kind"`
	Status     int     `json:"status,omitempty"`
	Reason     string  `json:"reason,omitempty"`
	Field      string  `json:"field"`
	Detail     string  `json:"detail,omitempty"`
	RetryAfter float64 `json:"retry_after,omitempty"`
	ID         string  `json:"id,omitempty"`
}

type answer struct {
	N     int      `json:"n"`
	OK    any      `json:"ok,omitempty"`
	Error *failure `json:"error,omitempty"`
}

// driver has the state of all requests.
type driver struct {
	c   *client.Client
	mu  sync.Mutex
	out *json.Encoder

	cancels map[int]context.CancelFunc
	workers map[int]*worker
	kinds   []string // of notices
}

func main() {
	log.SetFlags(0)
	d := &driver{out: json.NewEncoder(os.Stdout), cancels: map[int]context.CancelFunc{}, workers: map[int]*worker{}}
	var err error
	if d.c, err = client.New("", client.WithNotices(d.noticed)); err != nil {
		log.Fatal(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 256<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			log.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		d.mu.Lock()
		d.cancels[r.N] = cancel
		d.mu.Unlock()
		go d.serve(ctx, &r)
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}

// noticed collects what the client reports.
func (d *driver) noticed(n client.Notice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kinds = append(d.kinds, n.Kind)
	for _, w := range d.workers {
		w.noticed(n)
	}
}

func (d *driver) serve(ctx context.Context, r *request) {
	call, known := calls[r.Call]
	a := answer{N: r.N}
	var err error
	if !known {
		err = fmt.Errorf("%w: unknown call %s", client.ErrInvalid, r.Call)
	} else {
		limited := ctx
		if r.Options.Timeout > 0 {
			var cancel context.CancelFunc
			limited, cancel = context.WithTimeout(ctx, seconds(r.Options.Timeout))
			defer cancel()
		}
		if r.Options.Traceparent != "" {
			limited = client.WithTraceparent(limited, r.Options.Traceparent)
		}
		a.OK, err = call(limited, d, r)
	}
	if err != nil {
		a.OK, a.Error = nil, failureOf(err)
	} else if a.OK == nil {
		a.OK = struct{}{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.cancels, r.N)
	if err := d.out.Encode(a); err != nil {
		log.Fatal(err)
	}
}

// cancelCall cancels another request.
func (d *driver) cancelCall(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cancel := d.cancels[n]; cancel != nil {
		cancel()
	}
}

func failureOf(err error) *failure {
	var p *client.Problem
	var gone *client.Unreachable
	switch {
	case errors.As(err, &p):
		return &failure{
			Kind: "refused", Status: p.Status, Reason: p.Reason, Field: p.Field, Detail: p.Detail,
			RetryAfter: p.RetryAfter().Seconds(), ID: p.ID,
		}
	case errors.Is(err, context.Canceled):
		return &failure{Kind: "cancelled"}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{Kind: "timeout", Detail: err.Error()}
	case errors.As(err, &gone):
		return &failure{Kind: "unreachable", Detail: err.Error()}
	}
	return &failure{Kind: "invalid", Detail: err.Error()}
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
