package pull_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// shut is a body that knows whether it was closed.
type shut struct {
	io.Reader
	closed atomic.Bool
}

func (n *shut) Close() error {
	n.closed.Store(true)
	return nil
}

func TestTransport(t *testing.T) {
	onBoth(t, func(t *testing.T, process func() queue.Engine) {
		e := process()
		if _, err := e.Put(
			t.Context(), queue.Spec{Name: "api", Rate: rateOf(t, "1/h"), Burst: 3, Pull: true, Capacity: 2}, 0,
		); err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if r.URL.Path == "/old" {
				http.Redirect(w, r, "/", http.StatusFound)
			}
		}))
		defer server.Close()
		client := &http.Client{Transport: &pull.Transport{
			Turns: turnsOf(t, e, "api"), Within: time.Minute, Base: server.Client().Transport,
		}}
		defer client.CloseIdleConnections()
		get := func(ctx context.Context, path string, body io.Reader) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+path, body)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(r)
			if err == nil {
				err = answer.Body.Close()
			}
			return err
		}
		if err := get(t.Context(), "/", strings.NewReader("hello")); err != nil {
			t.Fatal(err)
		}
		// A turn keeps its place until the engine knows that it has ended, and there are only two.
		await.Until(t, "the first turn has ended", func() bool { return held(t, e, "api") == 0 })
		if err := get(t.Context(), "/old", nil); err != nil { // two turns
			t.Fatal(err)
		}
		body := &shut{Reader: strings.NewReader("hello")}
		var later *pull.Later
		if err := get(t.Context(), "/", body); !errors.As(err, &later) || later.RetryIn() < 50*time.Minute ||
			!body.closed.Load() {
			t.Errorf("a request that would wait too long: %v, body closed: %v", err, body.closed.Load())
		}
		await.Until(t, "the others are done", func() bool { return held(t, e, "api") == 0 })
		client.Transport.(*pull.Transport).Within = 5 * time.Hour
		gone := make(chan error)
		var cancels []context.CancelFunc
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			go func() { gone <- get(ctx, "/", nil) }()
		}
		await.Until(t, "both wait", func() bool { return infoOf(t, e, "api").Waiting == 2 })
		if err := get(t.Context(), "/", nil); !errors.As(err, &later) || later.In <= 0 {
			t.Errorf("a request that finds the queue full: %v", err)
		}
		for _, cancel := range cancels {
			cancel()
		}
		for range cancels {
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		}
		// A place that cannot be given back at once is given back in the background.
		await.Until(t, "no place is taken without an owner", func() bool { return held(t, e, "api") == 0 })
		if n := asked.Load(); n != 3 {
			t.Errorf("%d requests for 3 turns", n)
		}
	})
}

// An HTTP client whose requests keep to 50 a second, together with those of all other processes that use the queue.
func ExampleTransport() {
	dir, err := os.MkdirTemp("", "penstock")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine, err := boltq.Open(ctx, filepath.Join(dir, "store"), boltq.Options{}) // or redisq.Open, for several processes
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	if _, err := engine.Put(
		ctx, queue.Spec{Name: "partner", Rate: leaky.PerSecond(50), Capacity: 100, Pull: true}, queue.AnyRevision,
	); err != nil {
		log.Fatal(err)
	}
	dispatcher := pull.New(engine, pull.Options{})
	over := make(chan error)
	go func() { over <- dispatcher.Run(ctx) }()
	turns := pull.NewTurns(engine, dispatcher, "partner")

	partner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer partner.Close()
	client := &http.Client{Transport: &pull.Transport{Turns: turns, Within: 10 * time.Second}}
	defer client.CloseIdleConnections()
	begun := time.Now()
	for range 6 {
		answer, err := client.Get(partner.URL)
		var later *pull.Later
		if errors.As(err, &later) { // too many wait: retry after this
			fmt.Println("come back in", later.In)
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	fmt.Println("6 requests were at least 100 ms apart, the first from the last:", time.Since(begun) > 95*time.Millisecond)

	turns.Close()
	stop()
	fmt.Println(<-over)
	// Output:
	// 6 requests were at least 100 ms apart, the first from the last: true
	// <nil>
}

// A turn is reserved first, and given back in favor of other work.
func ExampleTurns_Reserve() {
	dir, err := os.MkdirTemp("", "penstock")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine, err := boltq.Open(ctx, filepath.Join(dir, "store"), boltq.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	if _, err := engine.Put(
		ctx, queue.Spec{Name: "partner", Rate: leaky.PerSecond(1), Capacity: 100, Pull: true}, queue.AnyRevision,
	); err != nil {
		log.Fatal(err)
	}
	dispatcher := pull.New(engine, pull.Options{})
	over := make(chan error)
	go func() { over <- dispatcher.Run(ctx) }()
	turns := pull.NewTurns(engine, dispatcher, "partner")

	now, err := turns.Reserve(ctx, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	soon, err := turns.Reserve(ctx, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a second later:", soon.At().Sub(now.At()).Round(time.Second))
	soon.Cancel(ctx)
	fmt.Println("the first has come:", now.Wait(ctx))

	turns.Close()
	stop()
	fmt.Println(<-over)
	// Output:
	// a second later: 1s
	// the first has come: <nil>
	// <nil>
}
