package admission

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// request asks a handler as a client of that API key does.
func request(h http.Handler, key string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	h.ServeHTTP(w, r)
	return w
}

func problemOf(t *testing.T, w *httptest.ResponseRecorder) (p problem) {
	t.Helper()
	if kind := w.Header().Get("Content-Type"); kind != "application/problem+json" {
		t.Errorf("Content-Type: %s", kind)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Errorf("%s: %v", w.Body, err)
	}
	if p.Status != w.Code {
		t.Errorf("status %d says %d", w.Code, p.Status)
	}
	return p
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

func TestMiddleware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(window("api.calls", rules.AwayClosed, 2), rule(
			"api.seen", 1, func(r *rules.Rule) { r.Action = rules.Shadow },
		))
		a, _, _ := begin(t, s)
		h := Middleware(a, "api.calls", HeaderKey("X-Api-Key"), MiddlewareOptions{})(ok)
		w := request(h, "acme")
		if w.Code != http.StatusNoContent || w.Header().Get("RateLimit-Policy") != `"api.calls";q=2;w=60` ||
			w.Header().Get("RateLimit") != `"api.calls";r=1;t=60` {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		request(h, "acme")
		time.Sleep(1500 * time.Millisecond)
		w = request(h, "acme")
		if w.Code != http.StatusTooManyRequests || w.Header().Get("RateLimit") != `"api.calls";r=0;t=59` ||
			w.Header().Get("Retry-After") != "59" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		if p := problemOf(t, w); p.Type != quotaExceeded || len(p.Policies) != 1 || p.Policies[0] != "api.calls" ||
			p.RetryAfterMS != 58_500 {
			t.Errorf("%+v", p)
		}
		if w = request(h, "other"); w.Code != http.StatusNoContent {
			t.Errorf("another key: %d", w.Code)
		}
		w = request(h, "")
		if p := problemOf(t, w); w.Code != http.StatusBadRequest || p.Field != "header.X-Api-Key" {
			t.Errorf("without a key: %+v", p)
		}
		costly := Middleware(
			a, "api.calls", HeaderKey("X-Api-Key"), MiddlewareOptions{Cost: func(*http.Request) int64 { return 3 }},
		)(ok)
		w = request(costly, "acme")
		if p := problemOf(t, w); w.Code != http.StatusBadRequest || p.Field != "cost" {
			t.Errorf("that can never pass: %+v", p)
		}
		shadow := Middleware(a, "api.seen", HeaderKey("X-Api-Key"), MiddlewareOptions{})(ok)
		for range 3 {
			if w = request(shadow, "acme"); w.Code != http.StatusNoContent || w.Header().Get("RateLimit") != "" {
				t.Errorf("a shadow: %d %v", w.Code, w.Header())
			}
		}
		none := Middleware(a, "api.none", OneKey(), MiddlewareOptions{})(ok)
		w = request(none, "")
		if p := problemOf(t, w); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" ||
			p.RetryAfterMS != 1000 {
			t.Errorf("a rule that is not there: %+v", p)
		}
		s.fail(queue.ErrUnavailable)
		if w = request(h, "new"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
			t.Errorf("closed while the store is away: %d %v", w.Code, w.Header())
		}
	})
}

// A rule with a unit counts costs in it, and a request whose unit is another one gets 400.
func TestMiddlewareWithUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := begin(t, newStore(rule("api.tokens", 1, func(r *rules.Rule) {
			r.Algorithm, r.Unit, r.Bound = leaky.AlgorithmBudget, "tokens", rules.Bound{Rate: leaky.PerSecond(1), Burst: 1000}
		})))
		h := func(unit string) http.Handler {
			return Middleware(a, "api.tokens", HeaderKey("X-Api-Key"), MiddlewareOptions{
				Unit: unit, Cost: func(*http.Request) int64 { return 600 },
			})(ok)
		}
		w := request(h("tokens"), "acme")
		if w.Code != http.StatusNoContent || w.Header().Get("RateLimit") != `"api.tokens";r=400;t=600` {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		w = request(h("tokens"), "acme")
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "200" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		for unit, field := range map[string]string{"": "costs.tokens", "images": "costs.images"} {
			w = request(h(unit), "acme")
			if p := problemOf(t, w); w.Code != http.StatusBadRequest || p.Field != field {
				t.Errorf("in %q: %+v", unit, p)
			}
		}
	})
}

func places(limit int64, ttl time.Duration) rules.Rule {
	return rules.Rule{
		Name: "api.places", Algorithm: leaky.AlgorithmConcurrency, Bound: rules.Bound{Limit: limit, TTL: unit.Duration(ttl)},
	}
}

// A place is held as long as the handler works, and then given back.
func TestMiddlewareHoldsAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(places(2, time.Minute))
		a, _, _ := begin(t, s)
		work := make(chan struct{})
		h := Middleware(a, "api.places", OneKey(), MiddlewareOptions{})(http.HandlerFunc(func(
			_ http.ResponseWriter, r *http.Request,
		) {
			if r.Header.Get("X-Api-Key") == "panics" {
				panic(http.ErrAbortHandler)
			}
			<-work
		}))
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if w := request(h, ""); w.Code != http.StatusOK {
					t.Errorf("%d", w.Code)
				}
			})
		}
		for range 5 { // long past the ttl
			synctest.Wait()
			w := request(h, "")
			if w.Code != http.StatusTooManyRequests || w.Header().Get(
				"RateLimit-Policy",
			) != `"api.places";q=2;qu="concurrent-requests"` {
				t.Errorf("a third: %d %v", w.Code, w.Header())
			}
			time.Sleep(45 * time.Second)
		}
		close(work)
		all.Wait()
		for range 3 {
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic does not come through")
					}
				}()
				request(h, "panics")
			}()
		}
		taken, err := a.Take(t.Context(), "api.places", []rules.Take{{Op: rules.TakePeek, Cost: 2}})
		if err != nil || !taken[0].Allowed {
			t.Errorf("both places are free, and it says %+v, %v", taken, err)
		}
	})
}

// A place is kept when the rule's ttl changes: the store then ends it earlier than it said.
func TestMiddlewareHoldsAPlaceOfAChangedTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(places(1, time.Minute))
		a, _, _ := begin(t, s)
		work := make(chan struct{})
		h := Middleware(a, "api.places", OneKey(), MiddlewareOptions{})(http.HandlerFunc(
			func(http.ResponseWriter, *http.Request) { <-work },
		))
		var all sync.WaitGroup
		all.Go(func() { request(h, "") })
		synctest.Wait()
		for _, ttl := range []time.Duration{3 * time.Second, 10 * time.Millisecond, time.Minute} {
			time.Sleep(25 * time.Second)
			s.put(places(1, ttl))
			for range 40 {
				if ttl < time.Second { // nobody looks that often: it may be lost, but not for long
					time.Sleep(2 * time.Second)
				}
				if n := passes(t, a, "api.places", "", 1); n != 0 {
					t.Fatalf("another one got the place once the ttl was %v", ttl)
				}
				time.Sleep(250 * time.Millisecond)
			}
		}
		taken := s.called("take")
		time.Sleep(time.Minute)
		if n := s.called("take") - taken; n > 4 {
			t.Errorf("renewed %d times in a minute, under a ttl of a minute", n)
		}
		close(work)
		all.Wait()
		if n := passes(t, a, "api.places", "", 1); n != 1 {
			t.Error("the place was not given back")
		}
	})
}

// If the store is away meanwhile, the place expires there. While the store is away the policy decides about places,
// too.
func TestMiddlewareHoldsAPlaceWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := places(4, time.Minute)
		r.Away = rules.AwayShare
		s := newStore(r)
		s.among = 2
		a, _, _ := begin(t, s)
		work := make(chan struct{})
		h := Middleware(a, "api.places", OneKey(), MiddlewareOptions{})(http.HandlerFunc(
			func(http.ResponseWriter, *http.Request) { <-work },
		))
		passes(t, a, "api.places", "", 1)
		synctest.Wait()
		s.fail(queue.ErrUnavailable)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if w := request(h, ""); w.Code != http.StatusOK {
					t.Errorf("%d", w.Code)
				}
			})
		}
		synctest.Wait()
		if w := request(h, ""); w.Code != http.StatusTooManyRequests {
			t.Errorf("its share is 2: %d", w.Code)
		} else if body := w.Body.String(); !strings.Contains(body, "#temporary-reduced-capacity") ||
			!strings.Contains(body, "the store cannot be reached") || strings.Contains(body, "violated") {
			t.Errorf("nobody's quota is exceeded: %s", body)
		}
		time.Sleep(3 * time.Minute) // renewed here all the while
		if w := request(h, ""); w.Code != http.StatusTooManyRequests {
			t.Errorf("its share is 2, and both are held: %d", w.Code)
		}
		close(work)
		all.Wait()
		if w := request(h, ""); w.Code != http.StatusOK {
			t.Errorf("both places are free: %d", w.Code)
		}
	})
}
