package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/client"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
)

// proxied is a receiver, and ingresses that pass calls on to it.
type proxied struct {
	receiver *httptest.Server
	base     []string // the base URL at each ingress
	begin    []func() error
	programs []*program
	stops    []func()
}

func (p *proxied) stop() {
	for _, one := range p.programs {
		one.stop()
	}
	for _, stop := range p.stops {
		stop()
	}
	p.receiver.Close()
}

// newProxied starts n ingresses on one Redis, or a server with an embedded store if n is 0, with more flags.
func newProxied(
	ctx context.Context, n int, rate string, answer http.HandlerFunc, more ...string,
) (p *proxied, err error) {
	p = &proxied{receiver: httptest.NewServer(answer)}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	dir, err := programs(ctx)
	if err != nil {
		return p, err
	}
	name, args := "penstock", []string(nil)
	if n == 0 {
		data, err := os.MkdirTemp("", "penstock-bench-")
		if err != nil {
			return p, err
		}
		p.stops = append(p.stops, func() { _ = os.RemoveAll(data) })
		args = []string{"up", "--data", data}
	} else {
		server, err := redistest.Start(ctx, redistest.Options{})
		if err != nil {
			return p, err
		}
		p.stops = append(p.stops, func() { _ = server.Close() })
		name, args = "ingress", []string{"--redis", server.URL(), "--init"}
	}
	args = append(append(args, "--egress-allow", "127.0.0.1"), more...)
	for i := range max(1, n) {
		p.programs, p.base = append(p.programs, nil), append(p.base, "")
		p.begin = append(p.begin, func() error {
			started, err := start(ctx, dir, name, args...)
			if err == nil {
				p.programs[i], p.base[i] = started, started.url+"/proxy/q"
			}
			return err
		})
		if err := p.begin[i](); err != nil {
			return p, err
		}
	}
	c, err := client.New(p.programs[0].url, client.WithToken(""))
	if err != nil {
		return p, err
	}
	_, err = c.PutQueue(ctx, "q", json.RawMessage(fmt.Sprintf(
		`{"rate": %q, "pull": true, "capacity": 20000, "deliver": {"http": {"url": %q}}}`, rate, p.receiver.URL,
	)))
	return p, err
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// call makes a call, and reads the answer.
func call(ctx context.Context, c *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	return err
}

// proxyIdle measures what the proxy adds to a call when nobody else calls.
func proxyIdle(name string, ingresses int, p50, p99 float64) Figure {
	return Figure{
		Name: name, Rounds: 3,
		Unit: "ms, p50 of a call through the proxy on an idle queue at 100/s, less that of a bare call",
		Peer: "httputil.ReverseProxy in a process of its own",
		Goal: fmt.Sprintf("%.1f ms, p99 %.0f ms", p50, p99),
		Met:  func(ours, _, _ float64) bool { return ours <= p50 && proxyP99 <= p99 },
		Setup: func(ctx context.Context) (Measurements, error) {
			p, err := newProxied(ctx, ingresses, "100/s", hello)
			if err != nil {
				return Measurements{}, err
			}
			m := Measurements{Close: p.stop, Notes: func() string { return fmt.Sprintf("p99 %.2f ms", proxyP99) }}
			plain, err := p.plain(ctx, p.receiver.URL)
			if err != nil {
				return m, err
			}
			m.Ours = func(ctx context.Context) (added float64, err error) {
				added, proxyP99, err = p.adds(ctx, p.base[0]+"/")
				return added, err
			}
			m.Peer = func(ctx context.Context) (float64, error) {
				added, _, err := p.adds(ctx, plain.url)
				return added, err
			}
			return m, nil
		},
	}
}

// adds returns the milliseconds that a proxy at a URL adds to a call: at the median and at the 99th percentile.
func (p *proxied) adds(ctx context.Context, proxy string) (p50, p99 float64, err error) {
	c := &http.Client{}
	var bare, through []float64
	for range sized(300) {
		for url, list := range map[string]*[]float64{p.receiver.URL: &bare, proxy: &through} {
			time.Sleep(12 * time.Millisecond) // until the next departure
			began := time.Now()
			if err := call(ctx, c, url); err != nil {
				return 0, 0, err
			}
			*list = append(*list, float64(time.Since(began))/float64(time.Millisecond))
		}
	}
	added := func(p float64) float64 { return percentile(through, p) - percentile(bare, p) }
	return added(0.5), added(0.99), nil
}

// plain starts the program plainproxy.
func (p *proxied) plain(ctx context.Context, args ...string) (*program, error) {
	dir, err := programs(ctx)
	if err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", "bench", "-o", filepath.Join(dir, "plainproxy"), "./plainproxy")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building plainproxy: %w: %s", err, out)
	}
	plain, err := startBare(ctx, dir, "plainproxy", args...)
	if err == nil {
		p.stops = append(p.stops, plain.stop)
	}
	return plain, err
}

// proxyP99 is the p99 of the last round of proxyIdle.
var proxyP99 float64

// proxyFree compares calls on an unlimited queue with httputil.ReverseProxy.
var proxyFree = Figure{
	Name: "proxy-unlimited", Unit: "calls/s, 64 callers, rate unlimited, embedded store", Rounds: 3,
	Peer: "httputil.ReverseProxy in a process of its own", Goal: "0.5 x the peer",
	Met: func(ours, peer, _ float64) bool { return ours >= 0.5*peer },
	Setup: func(ctx context.Context) (Measurements, error) {
		p, err := newProxied(ctx, 0, "unlimited", hello)
		if err != nil {
			return Measurements{}, err
		}
		m := Measurements{Close: p.stop}
		plain, err := p.plain(ctx, p.receiver.URL)
		if err != nil {
			return m, err
		}
		c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
		count := sized(20_000)
		through := func(url string) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) {
				return together(ctx, callers, count, func(ctx context.Context) error { return call(ctx, c, url) })
			}
		}
		m.Ours, m.Peer = through(p.base[0]+"/"), through(plain.url)
		return m, nil
	},
}

// proxyMemory measures the memory of waiting callers.
var proxyMemory = Figure{
	Name: "memory-proxy", Unit: "MB, resident memory that 8,000 waiting callers add to a server", Rounds: 1,
	Floor: "http.Server whose handler waits",
	Goal:  "96 MB, which is 12 KB a caller", Met: func(ours, _, _ float64) bool { return ours <= 96 },
	Setup: func(ctx context.Context) (Measurements, error) {
		// All turns come within 10 minutes, and one client may use half of the memory: else callers would be refused.
		p, err := newProxied(ctx, 0, "14/s", hello, "--memory", "2GiB")
		if err != nil {
			return Measurements{}, err
		}
		m := Measurements{Close: p.stop}
		plain, err := p.plain(ctx)
		if err != nil {
			return m, err
		}
		m.Ours = func(ctx context.Context) (float64, error) { return waitingMemory(ctx, p.programs[0], p.base[0]+"/") }
		m.Floor = func(ctx context.Context) (float64, error) { return waitingMemory(ctx, plain, plain.url) }
		return m, nil
	},
}

// waitingMemory returns the memory that callers add to a program while they wait. It fails if more than one in twenty
// does not wait.
func waitingMemory(ctx context.Context, server *program, url string) (float64, error) {
	before, err := server.resident()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &http.Client{Transport: &http.Transport{}}
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var ended atomic.Int64
	count := sized(8_000)
	for range count {
		all.Go(func() {
			defer ended.Add(1)
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
			r.Header.Set("Penstock-Wait", "10m")
			if answer, err := c.Do(r); err == nil {
				_ = answer.Body.Close()
			}
		})
	}
	time.Sleep(lasting(15 * time.Second))
	after, err := server.resident()
	if n := ended.Load(); err == nil && n > int64(count/20) {
		err = fmt.Errorf("%d of %d callers do not wait", n, count)
	}
	return after - before, err
}

// proxyShare has ingresses pass calls on while one is killed every second.
var proxyShare = Figure{
	Name: "proxy-share", Rounds: 1,
	Unit: "% of 50/s reached by 32 callers at 4 ingresses on Redis, one killed every second; 0 if the law is broken",
	Goal: "90%, law held", Met: func(ours, _, _ float64) bool { return ours >= 90 },
	Setup: func(ctx context.Context) (Measurements, error) {
		var mu sync.Mutex
		var starts []time.Duration
		began := time.Now()
		p, err := newProxied(ctx, 4, "50/s", func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			starts = append(starts, time.Since(began))
			mu.Unlock()
			hello(w, r)
		})
		if err != nil {
			return Measurements{}, err
		}
		notes := ""
		said := func() string { return notes }
		return Measurements{Close: p.stop, Notes: said, Ours: func(ctx context.Context) (float64, error) {
			ctx, cancel := context.WithCancel(ctx)
			var bases sync.RWMutex
			var all sync.WaitGroup
			for n := range 32 {
				all.Go(func() {
					c := &http.Client{Transport: &http.Transport{}}
					for ctx.Err() == nil {
						bases.RLock()
						url := p.base[n%len(p.base)]
						bases.RUnlock()
						if err := call(ctx, c, url+"/"); err != nil {
							time.Sleep(20 * time.Millisecond) // its ingress was killed
						}
					}
				})
			}
			time.Sleep(lasting(3 * time.Second))
			from, killed := time.Since(began), 0
			var failed error
			for end := time.Now().Add(lasting(time.Minute)); time.Now().Before(end) && failed == nil; killed++ {
				time.Sleep(lasting(time.Second))
				i := killed % len(p.begin)
				p.programs[i].stop()
				bases.Lock()
				failed = p.begin[i]()
				bases.Unlock()
			}
			cancel()
			all.Wait()
			mu.Lock()
			defer mu.Unlock()
			var seen []time.Duration
			for _, at := range starts {
				if at >= from {
					seen = append(seen, at)
				}
			}
			v := law.Law{Rate: leaky.PerSecond(50), Slack: clientsSlack, Delta: clientsDelta}.Judge(law.At(seen))
			pace := law.Measure(leaky.PerSecond(50), seen)
			notes = fmt.Sprintf("%.1f%%, law held %v (needs %v), %d killed", 100*pace.Share, v.Held, v.Needed, killed)
			if !v.Held {
				return 0, failed
			}
			return 100 * pace.Share, errors.Join(failed)
		}}, nil
	},
}
