package prove

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
)

// Post is the floor for the pace: one process that sleeps until the next instant of a grid and posts, in a loop, for
// the duration. It gives no guarantees, and shares its rate with no other process.
func Post(ctx context.Context, url string, rate leaky.Rate, duration time.Duration) error {
	n, d := rate.Fraction()
	if n == 0 {
		return fmt.Errorf("rate %s: must be limited", rate)
	}
	client := &http.Client{Timeout: 5 * time.Second}
	start := time.Now()
	for i := int64(0); ; i++ {
		due := time.Duration(float64(i) * float64(d) / float64(n) * float64(time.Microsecond))
		if due > duration {
			return nil
		}
		if err := pause(ctx, due-time.Since(start)); err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(payload))
		if err != nil {
			return fmt.Errorf("make the request: %w", err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return fmt.Errorf("post: %w", err)
		}
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be reused
		_ = resp.Body.Close()
	}
}

// reference runs the floor in its own process against its own receiver, and returns its pace.
func reference(ctx context.Context, o Options) (*PaceReport, error) {
	if o.Reference == nil {
		return nil, nil
	}
	rec, stop, err := receive(ctx, receiver.Options{})
	if err != nil {
		return nil, err
	}
	defer stop()
	fl := &fleet{
		what: "reference", command: func(int) Command { return o.Reference(rec.URL() + "/reference") }, log: o.Log,
	}
	defer fl.close(time.Second)
	if err := fl.start(0); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, o.Duration+patience)
	defer cancel()
	if err := fl.wait(waiting, 0); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	if err := fl.member(0).err; err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	p := measure(law.Law{Rate: o.Rate, Slack: o.Slack, Delta: o.Delta}, instants(rec.Arrivals(0)))
	return &p, nil
}
