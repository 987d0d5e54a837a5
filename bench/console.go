package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/console"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// consoleVisits is how often each page is requested; the median counts.
const consoleVisits = 5

// consoleParameters maps path parameters of pages to objects that consoleStore makes. The pages of an app and of a
// subject are left out: they need authentication, and show neither queues nor jobs.
var consoleParameters = strings.NewReplacer("{$}", "", "{queue}", queueName, "{id}", "deep-7", "{rule}", "limit")

// consolePages measures how long the server takes for the slowest page of the console.
var consolePages = Figure{
	Name: "console-pages", Unit: "ms, slowest page of the console, 10,000 queues, 1,000,000 jobs", Rounds: 1,
	Goal: "at most 300 ms", Met: func(ours, _, _ float64) bool { return ours <= 300 },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		var notes []string
		m := Measurements{Close: s.Close, Notes: func() string { return strings.Join(notes, "; ") }}
		if err := consoleStore(ctx, s.engine); err != nil {
			return m, err
		}
		watched := survey.New(s.engine, survey.Options{Keeper: s.engine})
		if err := watched.Read(ctx); err != nil {
			return m, err
		}
		run, stop := context.WithCancel(ctx)
		s.close = append(s.close, stop)
		go func() { _ = watched.Run(run) }()
		pages := console.New(console.Options{API: api.New(s.engine, api.Options{Survey: watched})})
		m.Ours = func(ctx context.Context) (float64, error) {
			type timed struct {
				path string
				took time.Duration
			}
			var all []timed
			for _, pattern := range append(console.PagePaths(), "/?name=queue-00&sort=-fill", "/?state=no_drainer") {
				path := consoleParameters.Replace(pattern)
				if strings.Contains(path, "{") {
					continue
				}
				took, err := visit(ctx, pages, path)
				if err != nil {
					return 0, err
				}
				all = append(all, timed{path, took})
			}
			slices.SortFunc(all, func(a, b timed) int { return int(b.took - a.took) })
			notes = notes[:0]
			for _, one := range all[:3] {
				notes = append(notes, fmt.Sprintf("%s %v", one.path, one.took.Round(time.Millisecond)))
			}
			return all[0].took.Seconds() * 1000, nil
		}
		return m, nil
	},
}

// visit returns the median time that the server takes for a page.
func visit(ctx context.Context, pages http.Handler, path string) (time.Duration, error) {
	var times []time.Duration
	for range consoleVisits {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, console.Root+path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		begun := time.Now()
		pages.ServeHTTP(w, r)
		times = append(times, time.Since(begun))
		if w.Code != http.StatusOK {
			return 0, fmt.Errorf("%s answers %d", path, w.Code)
		}
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// consoleStore makes the queues and jobs: half of the jobs are in one queue, in 1,000 lanes.
func consoleStore(ctx context.Context, e queue.Engine) error {
	queues, count := sized(10_000), sized(1_000_000)
	if err := put(ctx, e, queueName, leaky.PerSecond(1000)); err != nil {
		return err
	}
	names := make([]string, queues-1)
	for n := range names {
		names[n] = fmt.Sprintf("queue-%05d", n)
		if err := put(ctx, e, names[n], leaky.PerSecond(10)); err != nil {
			return err
		}
	}
	limit := rules.Rule{
		Name: "limit", Key: "{lane}", Algorithm: leaky.AlgorithmFixedWindow,
		Bound: rules.Bound{Limit: 100, Period: unit.Duration(time.Hour)},
	}
	if _, err := e.PutRule(ctx, limit, queue.AnyRevision); err != nil {
		return err
	}
	for from := 0; from < count; from += batch {
		jobs := make([]queue.Job, batch)
		for i := range jobs {
			n := from + i
			jobs[i] = queue.Job{
				Queue: queueName, ID: fmt.Sprint("deep-", n), Payload: payload, Lane: fmt.Sprint("lane-", n%1000),
			}
			if n >= count/2 {
				jobs[i].Queue, jobs[i].Lane = names[n%len(names)], ""
			}
		}
		if err := appendAll(ctx, e, jobs); err != nil {
			return err
		}
	}
	return nil
}
