package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/provider"
)

const (
	proxyProcesses = 16
	proxyKey       = "sk-simulated"
)

var proxyRequests = provider.Limit{N: 500, Per: time.Minute}

// proxyOpenAI has processes with the package openai share a provider's limits through the proxy: its requests or, if
// metered, its tokens, which run out first. The peer is the same processes without the proxy, with the package's own
// retries.
func proxyOpenAI(name string, goal float64, metered bool) Figure {
	of := proxyRequests.String()
	if metered {
		of = fmt.Sprint(tokensPerMinute, " tokens/m")
	}
	var notes []string
	refused := 0 // answers of 429 that reached a process of ours, in all rounds
	return Figure{
		Name: name, Rounds: 1, Peer: "the package alone, which retries",
		Unit: fmt.Sprintf("%% of %s used by %d processes with the package openai, streaming and not",
			of, proxyProcesses),
		Goal: fmt.Sprintf("%v%%, and no 429 reaches a caller", goal),
		Met:  func(ours, _, _ float64) bool { return ours >= goal && refused == 0 },
		Setup: func(ctx context.Context) (Measurements, error) {
			out, err := exec.CommandContext(ctx, "npm", "--prefix", thirdParty, "ci", "--no-audit", "--no-fund").CombinedOutput()
			if err != nil {
				return Measurements{}, fmt.Errorf("npm ci in %s: %w: %s", thirdParty, err, out)
			}
			measure := func(ctx context.Context, name string, proxied bool) (proxyUse, error) {
				use, err := useOpenAI(ctx, proxied, metered)
				notes = append(notes, name+": "+use.String())
				return use, err
			}
			return Measurements{
				Notes: func() string { return strings.Join(notes, "; ") },
				Ours: func(ctx context.Context) (float64, error) {
					use, err := measure(ctx, "through the proxy", true)
					refused += use.refused
					return use.share, err
				},
				Peer: func(ctx context.Context) (float64, error) {
					use, err := measure(ctx, "the package alone", false)
					return use.share, err
				},
			}, nil
		},
	}
}

const thirdParty = "clients/thirdparty"

// proxyUse is what came of calls in a minute.
type proxyUse struct {
	share   float64 // of the budget, in percent
	calls   int     // that ended
	refused int     // answers of 429, retried by the package or not
	failed  int     // calls that ended with an error
	slack   time.Duration
	first   string // an error
}

func (u proxyUse) String() string {
	text := fmt.Sprintf(
		"%.1f%% used, %d calls ended, %d answers of 429, %d calls failed, the window law needs %v of slack", u.share,
		u.calls, u.refused, u.failed, u.slack.Round(time.Millisecond))
	if u.first != "" {
		text += ", such as by " + u.first
	}
	return text
}

// useOpenAI runs the processes against a simulated provider, which allows little more than one second's requests at
// once, as real ones may.
func useOpenAI(ctx context.Context, proxied, metered bool) (use proxyUse, err error) {
	o := provider.Options{
		Provider: provider.OpenAI, Requests: proxyRequests, Burst: 10, Key: proxyKey, Seed: 1,
		StreamFor: 500 * time.Millisecond,
	}
	budget, perMinute, most := requestsOf, proxyRequests.N, "500"
	if metered {
		o.Tokens, budget = provider.Limit{N: tokensPerMinute, Per: time.Minute}, tokensOf
		perMinute, most = tokensPerMinute, "30000"
	}
	simulator, err := provider.New(o)
	if err != nil {
		return use, err
	}
	receiver := httptest.NewServer(simulator)
	defer receiver.Close()
	base, key := receiver.URL, proxyKey
	if proxied {
		var stop func()
		if base, stop, err = proxyServer(ctx, receiver.URL, metered); err != nil {
			return use, err
		}
		defer stop()
		key = "unused"
	}
	ctx, cancel := context.WithCancel(ctx)
	lines, counted := make(chan string), make(chan proxyUse)
	go func() {
		var use proxyUse
		for line := range lines {
			use.count(line)
		}
		counted <- use
	}()
	var running sync.WaitGroup
	for range proxyProcesses {
		if err = callOpenAI(ctx, &running, base+"/v1", key, most, lines); err != nil {
			break
		}
	}
	share, slack := 0.0, time.Duration(0)
	if err == nil {
		sleepFor(ctx, lasting(10*time.Second)) // all have begun
		from, began := chargedTo(simulator, budget), time.Now()
		sleepFor(ctx, lasting(time.Minute))
		allowed := float64(perMinute) * time.Since(began).Minutes()
		share = 100 * float64(chargedTo(simulator, budget)-from) / allowed
		if a := simulator.Stats().Accounts; len(a) == 1 {
			slack = a[0].Slack
		}
	}
	cancel()
	running.Wait()
	close(lines)
	use = <-counted
	use.share, use.slack = share, slack
	return use, err
}

// count counts the report of a call.
func (u *proxyUse) count(line string) {
	var r struct {
		Statuses       []int
		Error, Message string
	}
	if json.Unmarshal([]byte(line), &r) != nil {
		return // its process was killed
	}
	u.calls++
	for _, status := range r.Statuses {
		if status == 429 {
			u.refused++
		}
	}
	if r.Error != "" {
		u.failed++
		u.first = r.Error + ": " + r.Message
	}
}

// chargedTo returns how much of a budget the simulator has charged.
func chargedTo(s *provider.Simulator, of func(*provider.Account) *provider.Budget) (n int64) {
	for _, a := range s.Stats().Accounts {
		n += of(&a).Charged
	}
	return n
}

func requestsOf(a *provider.Account) *provider.Budget { return &a.Requests }

func tokensOf(a *provider.Account) *provider.Budget { return &a.Tokens }

func sleepFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// callOpenAI starts a process that calls without end, until ctx ends.
func callOpenAI(ctx context.Context, running *sync.WaitGroup, url, key, most string, lines chan<- string) error {
	c := exec.CommandContext(ctx, "node", "openai.mjs", "0", "mixed")
	c.Dir, c.Env = thirdParty, append(os.Environ(), "OPENAI_BASE_URL="+url, "OPENAI_API_KEY="+key,
		"MAX_COMPLETION_TOKENS="+most)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return fmt.Errorf("start node: %w", err)
	}
	running.Go(func() {
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		_, _ = io.Copy(io.Discard, out)
		_ = c.Wait() // it is killed
	})
	return nil
}

// proxyServer starts an embedded server with a queue for the provider, and returns the base URL of its calls.
func proxyServer(ctx context.Context, receiver string, metered bool) (base string, stop func(), err error) {
	dir, err := programs(ctx)
	if err != nil {
		return "", nil, err
	}
	data, err := os.MkdirTemp("", "penstock-bench-")
	if err != nil {
		return "", nil, err
	}
	remove := func() { _ = os.RemoveAll(data) }
	secret := filepath.Join(data, "OPENAI_API_KEY")
	err = errors.Join(
		os.WriteFile(secret, []byte(proxyKey), 0o600),
		os.WriteFile(secret+".allow", []byte("insecure:"+strings.TrimPrefix(receiver, "http://")+"\n"), 0o600),
	)
	if err != nil {
		remove()
		return "", nil, err
	}
	server, err := start(ctx, dir, "penstock", "up", "--data", filepath.Join(data, "store"), "--no-auth",
		"--egress-allow", "127.0.0.1", "--secrets-dir", data)
	if err != nil {
		remove()
		return "", nil, err
	}
	stop = func() {
		server.stop()
		remove()
	}
	set := []string{
		"queue", "set", "openai", "--server", server.url, "--preset", "openai", "rate=" + proxyRequests.String(),
		"deliver.http.url=" + receiver,
	}
	if metered {
		set = append(set, "limits.0.unit=tokens", fmt.Sprintf("limits.0.rate=%d/m", tokensPerMinute),
			fmt.Sprintf("limits.0.burst=%d", tokensPerMinute/10))
	}
	c := exec.CommandContext(ctx, filepath.Join(dir, "penstock"), set...)
	if out, err := c.CombinedOutput(); err != nil {
		stop()
		return "", nil, fmt.Errorf("queue set: %w: %s", err, out)
	}
	return server.url + "/proxy/openai", stop, nil
}
