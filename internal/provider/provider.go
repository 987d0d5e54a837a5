// Package provider simulates the API of a provider that limits requests and tokens: OpenAI, Anthropic, or a plain API.
// It is a receiver for tests of clients and of the pacing proxy.
//
// Each API key has a budget of requests and a budget of tokens. A call over either budget gets 429, with the headers
// and the body of that provider. The cost of a call in tokens is random, from a seed, and is charged while the answer
// is produced. So nobody knows the cost of a call in advance, and a budget of tokens can go below zero.
//
// Sources, for what callers can observe:
//
//   - https://platform.claude.com/docs/en/api/rate-limits: a token bucket, which is refilled continuously up to the
//     limit; a limit of 60 per minute may be enforced as 1 per second; output tokens count as they are produced; the
//     headers.
//   - https://platform.openai.com/docs/guides/rate-limits: the headers; limits may be enforced over shorter periods;
//     unsuccessful requests count. Its example, a remaining of 59 of 60 that resets in 1 s, is a bucket, too.
//   - https://www.twilio.com/docs/sendgrid/api-reference/how-to-use-the-sendgrid-v3-api/rate-limits: a fixed number of
//     requests in each refresh period, and X-RateLimit headers. That is the plain API.
//   - https://platform.claude.com/docs/en/api/errors: the errors of Anthropic.
//   - https://developers.openai.com/docs/guides/error-codes: the errors of OpenAI.
//
// The package promises limited memory, whatever arrives.
package provider

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// The providers.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
	Plain     = "plain"
)

// Limits of a Simulator.
const (
	MaxBody = 1 << 20 // bytes of a request
	MaxKeys = 1000    // API keys with a budget of their own
	// MaxTokens is the maximum cost of a call.
	MaxTokens = 1 << 15
)

// StatsPath is the path of the statistics. No provider has it.
const StatsPath = "/stats"

// Options of a Simulator.
type Options struct {
	Provider string // OpenAI, Anthropic or Plain
	Requests Limit
	Tokens   Limit // no limit if zero
	// Burst is the number of requests that may come at once; 0 is the number of Requests. It does not apply to Plain,
	// whose budget is renewed as a whole.
	Burst int64
	// Key is the only valid API key. If it is empty, any key is valid.
	Key string
	// Seed determines the costs of calls, in the order of their arrival.
	Seed uint64
	// Median and P99 are the median and the 99th percentile of the tokens of calls, prompt and answer together; 0 are
	// DefaultMedian and DefaultP99.
	Median, P99 int64
	// StreamFor is the time that a streamed answer takes.
	StreamFor time.Duration
}

// Simulator is an http.Handler. It is safe for use by many goroutines.
type Simulator struct {
	o Options
	d dialect

	mu       sync.Mutex
	costs    *costs
	next     int64 // number of the next answer
	accounts map[string]*account
	statuses map[string]int64
	streams  int64
	cut      int64
}

// New returns a Simulator.
func New(o Options) (*Simulator, error) {
	o.Median, o.P99 = cmp.Or(o.Median, DefaultMedian), cmp.Or(o.P99, max(o.Median, DefaultP99))
	s := &Simulator{
		o: o, costs: newCosts(o.Seed, o.Median, o.P99), accounts: map[string]*account{}, statuses: map[string]int64{},
	}
	switch o.Provider {
	case OpenAI:
		s.d = openAI{}
	case Anthropic:
		s.d = anthropic{}
	case Plain:
		s.d = plain{}
	default:
		return nil, fmt.Errorf("provider %q: must be openai, anthropic or plain", o.Provider)
	}
	switch {
	case o.Requests.N == 0:
		return nil, errors.New("requests: the limit is missing; give one, such as 500/m")
	case o.Burst < 0 || o.Burst > o.Requests.N:
		return nil, fmt.Errorf("burst %d: must be from 1 to %d, the limit of requests; 0 is that limit",
			o.Burst, o.Requests.N)
	case o.Median < 1 || o.Median > MaxTokens:
		return nil, fmt.Errorf("median %d: must be from 1 to %d tokens", o.Median, MaxTokens)
	case o.P99 < o.Median || o.P99 > MaxTokens:
		return nil, fmt.Errorf("p99 %d: must be from the median, %d, to %d tokens", o.P99, o.Median, MaxTokens)
	case o.Provider == Plain && (o.Tokens.N != 0 || o.Burst != 0):
		return nil, errors.New("provider plain: it has a number of requests per period; leave out tokens and burst")
	}
	return s, nil
}

// Own reports whether a path belongs to the simulator, not to the provider's API.
func (*Simulator) Own(path string) bool { return path == StatsPath }

// ServeHTTP implements http.Handler.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Own(r.URL.Path) {
		s.serveStats(w, r)
		return
	}
	do, allow := s.d.route(r.Method, r.URL.Path)
	switch {
	case do == nothing && allow != "":
		w.Header().Set("Allow", allow)
		s.refuse(w, problem{http.StatusMethodNotAllowed, wrongMethod, r.Method + " " + r.URL.Path})
		return
	case do == nothing:
		s.refuse(w, problem{http.StatusNotFound, unknownPath, r.Method + " " + r.URL.Path})
		return
	}
	a, p := s.account(s.d.key(r.Header))
	if p != nil {
		s.refuse(w, *p)
		return
	}
	switch do {
	case listModels:
		s.answer(w, s.d.models(models))
	case showModel:
		s.showModel(w, r.URL.Path)
	default:
		s.call(w, r, a, do)
	}
}

// Fail answers with an error of the provider, as if it had failed.
func (s *Simulator) Fail(w http.ResponseWriter, status int) {
	s.refuse(w, problem{status, failed, "this failure was asked for"})
}

// account returns the account of an API key.
func (s *Simulator) account(key string) (*account, *problem) {
	switch {
	case key == "" && s.o.Provider != Plain, key == "" && s.o.Key != "":
		return nil, &problem{http.StatusUnauthorized, missingKey, ""}
	case s.o.Key != "" && key != s.o.Key:
		return nil, &problem{http.StatusUnauthorized, wrongKey, ending(key)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[key]
	if a == nil && len(s.accounts) == MaxKeys {
		return nil, &problem{http.StatusUnauthorized, wrongKey, "one more than " + strconv.Itoa(MaxKeys) + " keys"}
	}
	if a == nil {
		a = newAccount(&s.o)
		s.accounts[key] = a
	}
	return a, nil
}

// ending returns the end of a key, by which its owner knows it.
func ending(key string) string {
	const shown = 4
	if len(key) < 3*shown {
		return "****"
	}
	return "****" + key[len(key)-shown:]
}
