package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/provider"
	"github.com/penstock/penstock/internal/provider/rivals"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	tokenClients    = 8 // drainers, or workers of another client
	tokensPerMinute = 200_000
	tokensMost      = 6000 // the 99th percentile of a call
	tokensMean      = 800
	tokenLatency    = time.Second // of an answer
	tokenCall       = `{"model": "sim-small", "max_tokens": 30000, "messages": [{"role": "user", "content": "hello"}]}`
)

// tokenUse is what came of the calls of a client, in the measured time.
type tokenUse struct {
	share   float64 // of the budget of tokens, in percent
	calls   int64
	refused int64 // answers of 429
}

func (u tokenUse) String() string {
	return fmt.Sprintf("%.1f%% used, %d calls, %d answers of 429", u.share, u.calls, u.refused)
}

// tokens has drainers share the limits of a provider for requests and tokens. Tokens run out first, and what a call
// costs is not known before. The peers are clients as people write them.
var tokens = Figure{
	Name: "tokens", Rounds: 1, Peer: "a client that reserves the 99th percentile of a call",
	Unit: fmt.Sprintf("%% of %d tokens/m used by %d drainers, whose calls have unknown costs", tokensPerMinute,
		tokenClients),
	Goal: "95%, and no 429",
	Met:  func(ours, _, _ float64) bool { return ours >= 95 && tokensRefused == 0 },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		var notes []string
		note := func(name string, use tokenUse) { notes = append(notes, name+": "+use.String()) }
		return Measurements{
			Close: s.Close,
			Notes: func() string { return strings.Join(notes, "; ") },
			Ours: func(ctx context.Context) (float64, error) {
				use, err := useTokens(ctx, func(ctx context.Context, url string) error { return drainTokens(ctx, s, url) })
				note("Penstock", use)
				tokensRefused = use.refused
				return use.share, err
			},
			Peer: func(ctx context.Context) (float64, error) {
				uses, err := rivalTokens(ctx)
				for _, name := range slices.Sorted(maps.Keys(uses)) {
					note(name, uses[name])
				}
				return uses[reserving].share, err
			},
		}, nil
	},
}

// tokensRefused is the number of answers of 429 that Penstock got.
var tokensRefused int64

const reserving = "reserving the 99th percentile"

// rivalTokens measures the rivals, each with a provider of its own.
func rivalTokens(ctx context.Context) (map[string]tokenUse, error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed error
	uses := map[string]tokenUse{}
	for name, rival := range map[string]rivals.Rival{
		reserving: rivals.Reserving, "counting afterwards": rivals.Counting, "waiting after each 429": rivals.Retrying,
	} {
		all.Go(func() {
			use, err := useTokens(ctx, func(ctx context.Context, url string) error {
				rival(ctx, tokenClients, tokensPerMinute, tokensMost, func(ctx context.Context) rivals.Outcome {
					return callForTokens(ctx, url)
				})
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			uses[name], failed = use, errors.Join(failed, err)
		})
	}
	all.Wait()
	return uses, failed
}

// useTokens has a client call a simulated provider until its ctx ends, and measures a minute after the first 10 s.
func useTokens(ctx context.Context, client func(ctx context.Context, url string) error) (use tokenUse, err error) {
	simulator, err := provider.New(provider.Options{
		Provider: provider.OpenAI, Requests: proxyRequests, Seed: 1,
		Tokens: provider.Limit{N: tokensPerMinute, Per: time.Minute}, Median: 400, P99: tokensMost,
	})
	if err != nil {
		return use, err
	}
	var calls, refused atomic.Int64
	url, closeIt, err := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		late := httptest.NewRecorder()
		simulator.ServeHTTP(late, r)
		if calls.Add(1); late.Code == http.StatusTooManyRequests {
			refused.Add(1)
		} else {
			time.Sleep(tokenLatency)
		}
		maps.Copy(w.Header(), late.Header())
		w.WriteHeader(late.Code)
		_, _ = w.Write(late.Body.Bytes())
	}))
	if err != nil {
		return use, err
	}
	defer closeIt()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- client(running, url) }()
	sleepFor(ctx, lasting(10*time.Second))
	from, before, already, began := chargedTo(simulator, tokensOf), calls.Load(), refused.Load(), time.Now()
	sleepFor(ctx, lasting(time.Minute))
	use.share = 100 * float64(chargedTo(simulator, tokensOf)-from) / (tokensPerMinute * time.Since(began).Minutes())
	use.calls, use.refused = calls.Load()-before, refused.Load()-already
	stop()
	return use, <-ended
}

// callForTokens makes a call, as the rivals do.
func callForTokens(ctx context.Context, url string) (o rivals.Outcome) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(tokenCall))
	if err != nil {
		return o
	}
	r.Header.Set("Authorization", "Bearer "+proxyKey)
	answer, err := http.DefaultClient.Do(r)
	if err != nil { // at the end
		return o
	}
	defer func() { _ = answer.Body.Close() }()
	var said struct {
		Usage struct {
			TotalTokens int64 `json:"total_tokens"`
		}
	}
	_ = json.NewDecoder(io.LimitReader(answer.Body, provider.MaxBody)).Decode(&said)
	o.Tokens = said.Usage.TotalTokens
	if answer.StatusCode == http.StatusTooManyRequests {
		later, _ := httptarget.RetryAfter(answer.Header, time.Now())
		o.Wait = later.For
	}
	return o
}

// drainTokens drains a queue with a budget of tokens to a provider until ctx ends.
func drainTokens(ctx context.Context, s *redisStore, url string) error {
	if err := s.again(ctx); err != nil {
		return err
	}
	target, err := json.Marshal(map[string]any{"http": map[string]any{
		"url": url + "/v1/chat/completions", "headers": map[string]string{"Authorization": "Bearer " + proxyKey},
		"actual": map[string]any{"tokens": map[string]string{"pointer": "/usage/total_tokens"}},
	}})
	if err != nil {
		return err
	}
	requests, err := leaky.ParseRate(proxyRequests.String())
	if err != nil {
		return err
	}
	perMinute, err := leaky.ParseRate(fmt.Sprint(tokensPerMinute, "/m"))
	if err != nil {
		return err
	}
	if _, err := s.engine.Put(ctx, queue.Spec{
		Name: queueName, Rate: requests, Capacity: queue.MaxCapacity, Deliver: target,
		Limits:   []queue.Limit{{Unit: "tokens", Rate: perMinute, Burst: tokensPerMinute / 10}},
		Estimate: map[string]queue.Estimate{"tokens": {Default: tokensMean}},
	}, queue.AnyRevision); err != nil {
		return err
	}
	jobs := make([]queue.Job, 1000) // more than leave in the time
	for i := range jobs {
		jobs[i] = queue.Job{Queue: queueName, ID: newID(), Payload: []byte(tokenCall), ContentType: "application/json"}
	}
	if err := appendAll(ctx, s.engine, jobs); err != nil {
		return err
	}
	guard, err := egress.New(egress.Loopback...)
	if err != nil {
		return err
	}
	engines, done, err := s.others(ctx, tokenClients, nil)
	if err != nil {
		return err
	}
	defer done()
	ended := make(chan error, len(engines))
	for _, e := range engines {
		go func() {
			router := deliver.New(deliver.Options{Concurrency: callers, Egress: guard})
			defer func() { _ = router.Close() }()
			ended <- drain.Run(ctx, e, router, drain.Options{Concurrency: callers, Grace: time.Second})
		}()
	}
	for range engines {
		err = errors.Join(err, <-ended)
	}
	return err
}
