package console_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/browser"
	"github.com/penstock/penstock/internal/test/long"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/internal/test/transcript"
)

// maxFirstView is the maximum size of the overview in bytes, compressed and without the chart library.
const maxFirstView = 60 << 10

// The overview with a full page of queues is small.
func TestBytes(t *testing.T) {
	r := newRig(t)
	for i := range 60 {
		r.queue(fmt.Sprintf("tenant-%02d", i), fields{"capacity": 1000 + i})
	}
	r.listed("tenant-59")
	p := r.signIn(browser.Options{})
	p.Go(r.url("/"))
	p.Until(`document.querySelectorAll(".queues tbody tr").length === 50`)
	bytes := browser.Value[int](p, `performance.getEntriesByType("navigation")
		.concat(performance.getEntriesByType("resource"))
		.reduce((sum, entry) => sum + entry.encodedBodySize, 0)`)
	t.Logf("the overview takes %d bytes", bytes)
	if bytes == 0 || bytes > maxFirstView {
		t.Errorf("the overview takes %d bytes, at most %d", bytes, maxFirstView)
	}
}

var figures = flag.Bool("figures", false, "measure how long the first view of 10,000 queues takes")

// TestFirstView measures, with -args -figures, the time until the overview of 10,000 queues is usable. The result
// depends on the machine, so it is only logged.
func TestFirstView(t *testing.T) {
	if !*figures {
		return
	}
	r := newRig(t)
	manyQueues(t, "http://"+r.addr, r.secret)
	r.listed("tenant-9999")
	views(t, r.signIn(browser.Options{}), r.url)
}

// manyQueues creates 10,000 queues.
func manyQueues(t *testing.T, base, token string) {
	t.Helper()
	const queues, callers = 10_000, 64
	names := make(chan string)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for name := range names {
				put(t, base+"/v1/queues/"+name, `{"rate":"10/s","pull":true}`, token)
			}
		})
	}
	for i := range queues {
		names <- fmt.Sprintf("tenant-%04d", i)
	}
	close(names)
	all.Wait()
}

// views logs the time that overview pages take.
func views(t *testing.T, p *browser.Page, url func(path string) string) {
	t.Helper()
	for _, address := range []string{"/", "/", "/?sort=-fill", "/?name=99&sort=-in", "/?page=200"} {
		p.Go("about:blank")
		p.Go(url(address))
		p.Text(".queues tbody tr")
		t.Logf("%s can be used after %.0f ms, of which the server took %.0f", address,
			browser.Value[float64](p, `performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd`),
			browser.Value[float64](p, `(n => n.responseStart - n.requestStart)(performance.getEntriesByType("navigation")[0])`))
	}
}

// maxCommands is the maximum number of additional Redis commands per second for 50 consoles.
const maxCommands = 20

// Fifty open consoles cost Redis little, because they share one reading. The short form opens only pages of
// a queue. It is not parallel: it measures a rate.
func TestFiftyConsoles(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	client := server.Client()

	base := ingress(t, "--redis", server.URL(), "--init", "--no-auth")
	for i := range 100 {
		put(t, fmt.Sprintf("%s/v1/queues/queue-%02d", base, i), `{"rate":"10/s","pull":true}`, "")
	}
	put(t, base+"/v1/rules/signup", `{"algorithm":"fixed_window","limit":5,"period":"1h"}`, "")
	none, fifty := commandsPerSecond(t, client), map[string]float64{}
	looks := map[string]func(context.Context, string){"pages of a queue": lookAtOne}
	if long.Form() {
		looks["overviews"], looks["pages of a rule"] = lookAtAll, lookAtRule
	}
	for name, look := range looks {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 50 { // not all in step: their questions would travel together
			all.Go(func() { look(ctx, base) })
			time.Sleep(40 * time.Millisecond)
		}
		fifty[name] = commandsPerSecond(t, client)
		cancel()
		all.Wait()
	}
	// The timers of a busy machine are late, at some times more than at others.
	none = max(none, commandsPerSecond(t, client))
	for name, n := range fifty {
		t.Logf("none cost Redis %.1f commands a second, fifty %s %.1f", none, name, n)
		if n-none > maxCommands {
			t.Errorf("fifty %s cost Redis %.1f commands a second over the %.1f of none", name, n, none)
		}
	}
}

// lookAtAll behaves like an open overview: it follows the events of its queues and fetches the page every 2 s.
func lookAtAll(ctx context.Context, base string) {
	names := make([]string, 50)
	for i := range names {
		names[i] = fmt.Sprintf("queue-%02d", i)
	}
	go follow(ctx, base+"/console/api/v1/events?queues="+url.QueryEscape(strings.Join(names, ",")))
	visit(ctx, base+"/console/", 2*time.Second)
}

// lookAtOne behaves like the open page of a queue: it follows events and fetches the page every 3 s, and the charts.
func lookAtOne(ctx context.Context, base string) {
	go follow(ctx, base+"/console/api/v1/queues/queue-07/events")
	go visit(ctx, base+"/console/api/v1/queues/queue-07/history?window=15m", 5*time.Second)
	visit(ctx, base+"/console/queues/queue-07", 3*time.Second)
}

// lookAtRule behaves like the open page of a rule after a check: it fetches the page every 5 s.
func lookAtRule(ctx context.Context, base string) {
	visit(ctx, base+"/console/rules/signup?key=a&cost=1", 5*time.Second)
}

// follow reads an event stream to its end.
func follow(ctx context.Context, events string) {
	if resp, err := fetch(ctx, events); err == nil {
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			continue
		}
	}
}

// visit fetches a page repeatedly.
func visit(ctx context.Context, page string, every time.Duration) {
	for ctx.Err() == nil {
		if resp, err := fetch(ctx, page); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

func fetch(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

func put(t *testing.T, url, body, token string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Errorf("PUT %s: %s", url, resp.Status)
	}
}

// commandsPerSecond returns the rate of commands sent to Redis, without commands within scripts.
func commandsPerSecond(t *testing.T, client *redis.Client) float64 {
	t.Helper()
	const span = 8 * time.Second
	count := func() (n float64) {
		text, err := client.Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			var calls float64
			name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
			if name == "evalsha" || name == "eval" {
				_, _ = fmt.Sscanf(rest, "calls=%g", &calls)
				n += calls
			}
		}
		return n
	}
	time.Sleep(2 * time.Second) // until what begins has begun
	before := count()
	time.Sleep(span)
	return (count() - before) / span.Seconds()
}

// ingress runs an ingress until the test ends, and returns its URL.
func ingress(t *testing.T, flags ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	logs := &transcript.Buffer{}
	done := make(chan error, 1)
	args := append([]string{"--listen", "127.0.0.1:0", "--drain-delay", "0"}, flags...)
	go func() { done <- app.RunIngress(ctx, args, io.Discard, logs) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the ingress: %v\n%s", err, logs)
		}
	})
	at := func() string {
		_, after, found := strings.Cut(logs.String(), `"ingress listens" url=`)
		if !found {
			return ""
		}
		address, _, _ := strings.Cut(after, "\n")
		return strings.TrimSpace(address)
	}
	await.Until(t, "the ingress listens", func() bool { return at() != "" })
	return at()
}
