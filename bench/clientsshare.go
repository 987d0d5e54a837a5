package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
)

// clientsShare has processes share a rate while some are killed: of our clients, and of bottleneck on Redis, also with
// clocks that differ.
var clientsShare = Figure{
	Name: "clients-share", Rounds: 1, Peer: "bottleneck on Redis, 24 Node processes",
	Unit: "% of 50/s reached by 24 processes in 3 languages, 3 killed every 5 s; 0 if the law is broken at the receiver",
	Goal: "99%", Met: func(ours, _, _ float64) bool { return ours >= 99 },
	Setup: func(context.Context) (Measurements, error) {
		notes := ""
		note := func(what string, s shared) float64 {
			notes += fmt.Sprintf("%s: %s; ", what, s)
			if !s.verdict.Held {
				return 0
			}
			return 100 * s.pace.Share
		}
		return Measurements{
			Notes: func() string { return notes },
			Ours: func(ctx context.Context) (float64, error) {
				s, err := shareByClients(ctx)
				return note("penstock", s), err
			},
			Peer: func(ctx context.Context) (float64, error) {
				apart, err := shareByBottleneck(ctx, time.Second)
				if err != nil {
					return 0, err
				}
				note("bottleneck with clocks up to 1 s apart", apart)
				s, err := shareByBottleneck(ctx, 0)
				return note("bottleneck", s), err
			},
		}, nil
	},
}

const (
	clientsEach = 8
	clientsKill = 5 * time.Second
	// clientsSlack is the slack of the queue, and clientsDelta that of the way from a turn to the receiver.
	clientsSlack, clientsDelta = 10 * time.Millisecond, 10 * time.Millisecond
)

var clientsRate = leaky.PerSecond(50)

// shared is what came of a rate that processes shared.
type shared struct {
	verdict law.Verdict
	pace    law.Pace
	killed  int
}

func (s shared) String() string {
	return fmt.Sprintf(
		"%.1f%%, law held %v (needs %v, may need %v), at most %d calls in a window where %d are allowed, %d killed",
		100*s.pace.Share, s.verdict.Held, s.verdict.Needed.Round(time.Millisecond), clientsSlack+clientsDelta,
		s.verdict.Worst.Starts, s.verdict.Worst.Allowed, s.killed,
	)
}

// share runs processes of three kinds, which call a receiver until they are killed. begin starts the nth process of a
// kind.
func share(begin func(kind, n int, receiver string) (kill func(), err error)) (s shared, err error) {
	began := time.Now()
	var mu sync.Mutex
	var arrivals []time.Duration
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		arrivals = append(arrivals, time.Since(began))
	}))
	defer receiver.Close()
	var kills [len(clientLanguages)][clientsEach]func()
	defer func() {
		for _, kind := range kills {
			for _, kill := range kind {
				if kill != nil {
					kill()
				}
			}
		}
	}()
	for kind := range kills {
		for n := range kills[kind] {
			if kills[kind][n], err = begin(kind, n, receiver.URL); err != nil {
				return s, err
			}
		}
	}
	time.Sleep(lasting(10 * time.Second)) // all have begun
	from := time.Since(began)
	for end := time.Now().Add(lasting(time.Minute)); time.Now().Before(end); {
		time.Sleep(lasting(clientsKill))
		for kind := range kills {
			n := s.killed / len(kills) % clientsEach
			kills[kind][n]()
			if kills[kind][n], err = begin(kind, n, receiver.URL); err != nil {
				return s, err
			}
			s.killed++
		}
	}
	mu.Lock()
	defer mu.Unlock()
	seen := slices.DeleteFunc(slices.Sorted(slices.Values(arrivals)), func(at time.Duration) bool { return at < from })
	s.verdict = law.Law{Rate: clientsRate, Slack: clientsSlack, Delta: clientsDelta}.Judge(law.At(seen))
	s.pace = law.Measure(clientsRate, seen)
	return s, nil
}

func shareByClients(ctx context.Context) (shared, error) {
	url, stop, err := clientServer(ctx, fmt.Sprintf(`{"rate": %q, "pull": true}`, clientsRate))
	if err != nil {
		return shared{}, err
	}
	defer stop()
	return share(func(kind, _ int, receiver string) (func(), error) {
		p, err := startClient(ctx, clientLanguages[kind], url)
		if err != nil {
			return nil, err
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				_, err := p.call("paced_get", map[string]any{"queue": "q", "url": receiver, "wait": 30})
				if errors.Is(err, errClientGone) {
					return
				}
			}
		}()
		return func() { p.stop(); <-ended }, nil
	})
}

// shareByBottleneck gives the processes clocks that differ by as much as skew from the first to the last.
func shareByBottleneck(ctx context.Context, skew time.Duration) (s shared, err error) {
	// npm must not write into the repository.
	dir, err := os.MkdirTemp("", "penstock-bench-")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("bench", "bottleneck"))); err != nil {
		return s, err
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return s, fmt.Errorf("npm ci: %w: %s", err, out)
	}
	server, err := redistest.Start(ctx, redistest.Options{})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	all := len(clientLanguages) * clientsEach
	return share(func(kind, n int, receiver string) (func(), error) {
		off := skew * time.Duration(kind*clientsEach+n) / time.Duration(all-1)
		cmd := exec.CommandContext(
			ctx, "node", filepath.Join(dir, "call.js"), server.Addr(), receiver,
			strconv.FormatInt(off.Milliseconds(), 10),
		)
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}, nil
	})
}
