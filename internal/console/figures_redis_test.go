package console_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/browser"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/internal/test/transcript"
)

// TestFirstViewOnRedis is TestFirstView with an ingress on Redis.
func TestFirstViewOnRedis(t *testing.T) {
	if !*figures {
		return
	}
	server := redistest.New(t, redistest.Options{})
	base := ingress(t, "--redis", server.URL(), "--init", "--no-auth")
	manyQueues(t, base, "")
	await.Until(t, "there are all", func() bool {
		return strings.Contains(get(t, base+"/v1/overview?limit=1"), `"total":10000`)
	})
	url := func(path string) string { return base + "/console" + path }
	views(t, browser.New(t, browser.Options{}), url)
}

// Maximum time until the console shows an event at a receiver. An ingress reads the queues once per second, and the
// console shows the result within three readings. Without event streams, a page would take ten seconds.
const (
	maxUnseen         = 1500 * time.Millisecond // with -args -figures, on a machine that has time
	maxUnseenReadings = 3
)

// The overview and the queue's page show a throttled queue within three readings, with an ingress and a drainer on
// Redis. With -args -figures, also within a second and a half.
func TestThrottledIsShown(t *testing.T) {
	t.Parallel() // it mostly waits
	var busy atomic.Bool
	var at atomic.Int64 // when it first asked for time
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if busy.Load() {
			at.CompareAndSwap(0, time.Now().UnixNano())
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer receiver.Close()
	server := redistest.New(t, redistest.Options{})
	base := ingress(t, "--redis", server.URL(), "--init", "--no-auth", "--egress-allow", "127.0.0.1")
	drainer(t, "--redis", server.URL(), "--egress-allow", "127.0.0.1")
	for page, state := range map[string]string{"/": "[data-key=sms-0] .state", "/queues/sms-1": "#queue .state"} {
		name := "sms-0"
		if page != "/" {
			name = "sms-1"
		}
		busy.Store(false)
		at.Store(0)
		put(t, base+"/v1/queues/"+name, fmt.Sprintf(`{"rate":"20/s","deliver":{"http":{"url":%q}}}`, receiver.URL), "")
		p := browser.New(t, browser.Options{})
		p.Go(base + "/console" + page)
		p.Until(`document.querySelector("` + state + `")`)
		await.Until(t, "the page follows events", func() bool {
			return strings.Contains(get(t, base+"/metrics"), "\npenstock_event_streams 1\n")
		})
		busy.Store(true)
		post(t, base+"/v1/queues/"+name+"/jobs", `{"payload":1}`)
		await.Until(t, "the store knows", func() bool {
			return strings.Contains(get(t, base+"/v1/queues/"+name), `"code":"throttled"`)
		})
		readings := countReadings(t, base)
		p.Until(`document.querySelector("` + state + `").textContent.includes("receiver asked to wait")`)
		took := time.Since(time.Unix(0, at.Load())).Round(time.Millisecond)
		made := readings()
		t.Logf("%s shows what a receiver asks for after %v, and %d readings", page, took, made)
		if *figures && took > maxUnseen || made > maxUnseenReadings {
			t.Errorf(
				"%s shows what a receiver asks for after %v and %d readings, at most %v and %d", page, took, made, maxUnseen,
				maxUnseenReadings,
			)
		}
		p.Go("about:blank")
		await.Until(t, "the page follows none", func() bool {
			return strings.Contains(get(t, base+"/metrics"), "\npenstock_event_streams 0\n")
		})
	}
}

// countReadings counts an ingress's readings of the queues until made is called.
func countReadings(t *testing.T, base string) (made func() int) {
	t.Helper()
	latest := func() string {
		_, after, _ := strings.Cut(get(t, base+"/metrics"), "\npenstock_survey_timestamp_seconds ")
		at, _, _ := strings.Cut(after, "\n")
		return at
	}
	last, n := latest(), 0
	over, counted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(counted)
		for {
			if at := latest(); at != last {
				last, n = at, n+1
			}
			select {
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() int { close(over); <-counted; return n }
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := fetch(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func post(t *testing.T, url, body string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		t.Fatalf("POST %s: %s", url, resp.Status)
	}
}

// drainer runs a drainer until the test ends.
func drainer(t *testing.T, flags ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	logs := &transcript.Buffer{}
	done := make(chan error, 1)
	args := append([]string{"--listen", "127.0.0.1:0"}, flags...)
	go func() { done <- app.RunDrainer(nil)(ctx, args, io.Discard, logs) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the drainer: %v\n%s", err, logs)
		}
	})
}
