package admission_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// open opens an engine in a file that is gone when it is closed.
func open(ctx context.Context) (engine queue.Engine, done func(), err error) {
	dir, err := os.MkdirTemp("", "admission")
	if err != nil {
		return nil, nil, err
	}
	e, err := boltq.Open(ctx, filepath.Join(dir, "store"), boltq.Options{})
	if err != nil {
		return nil, nil, err
	}
	return e, func() { _ = e.Close(); _ = os.RemoveAll(dir) }, nil
}

// Ask a rule about anything.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine, done, err := open(ctx) // or redisq.Open, and all processes together keep to the rule
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	_, err = engine.PutRule(ctx, rules.Rule{
		Name: "otp", Algorithm: leaky.AlgorithmSlidingLog, Key: "{payload/to}", Bound: rules.Bound{
			Limit: 2, Period: unit.Duration(time.Minute),
		},
	}, queue.AnyRevision)
	if err != nil {
		fmt.Println(err)
		return
	}
	a := admission.New(engine, admission.Options{})
	over := make(chan error)
	go func() { over <- a.Run(ctx) }()
	for range 3 {
		taken, err := a.Take(ctx, "otp", []rules.Take{{Key: "a@example.com"}})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(taken[0].Allowed, taken[0].Remaining, taken[0].RetryAfter > 0)
	}
	stop()
	fmt.Println(<-over)
	// Output:
	// true 1 false
	// true 0 false
	// false 0 true
	// <nil>
}

// Limit how often each client may call a handler, and how many calls run at once. Forged addresses do not get a client
// another key.
func ExampleMiddleware() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine, done, err := open(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	rate, err := leaky.ParseRate("2/m")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range []rules.Rule{
		{
			Name: "api.calls", Algorithm: leaky.AlgorithmTokenBucket, Key: "{header.address}",
			Bound: rules.Bound{Rate: rate, Burst: 2},
		},
		{
			Name: "api.places", Algorithm: leaky.AlgorithmConcurrency,
			Bound: rules.Bound{Limit: 20, TTL: unit.Duration(10 * time.Second)},
		},
	} {
		if _, err := engine.PutRule(ctx, r, queue.AnyRevision); err != nil {
			fmt.Println(err)
			return
		}
	}
	a := admission.New(engine, admission.Options{})
	over := make(chan error)
	go func() { over <- a.Run(ctx) }()

	client := admission.ClientAddress(admission.AddressOptions{Proxies: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"),
	}})
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	h = admission.Middleware(a, "api.places", admission.OneKey(), admission.MiddlewareOptions{})(h)
	h = admission.Middleware(a, "api.calls", client, admission.MiddlewareOptions{})(h)

	for _, forged := range []string{"198.51.100.1", "198.51.100.2", "198.51.100.3"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:4711"                           // the proxy,
		r.Header.Set("X-Forwarded-For", forged+", 203.0.113.80") // which was asked by that one
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.Join(w.Header()["Ratelimit-Policy"], ", "))
	}
	stop()
	fmt.Println(<-over)
	// Output:
	// 200 "api.calls";q=2;w=60, "api.places";q=20;qu="concurrent-requests"
	// 200 "api.calls";q=2;w=60, "api.places";q=20;qu="concurrent-requests"
	// 429 "api.calls";q=2;w=60
	// <nil>
}
