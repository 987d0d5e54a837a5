package sinkcmd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/cli/sink"
	"github.com/penstock/penstock/internal/provider"
)

// ProviderFlags are the flags of a sink that simulates a provider.
type ProviderFlags struct {
	Provider  string         `env:"-" help:"API to simulate: openai, anthropic or plain." placeholder:"NAME"`
	Requests  provider.Limit `env:"-" help:"Limit of requests per API key, such as 500/m." placeholder:"LIMIT"`
	Tokens    provider.Limit `env:"-" help:"Limit of tokens per API key, such as 200000/m. Default: none."`
	Burst     int64          `env:"-" help:"Requests that may come at once. Default: the limit." placeholder:"N"`
	Key       string         `env:"-" help:"The only valid API key. Default: any key is valid." placeholder:"KEY"`
	Seed      uint64         `env:"-" help:"Seed of the costs of calls." default:"1" placeholder:"N"`
	Median    int64          `env:"-" help:"Median of the tokens of calls." default:"400" placeholder:"N"`
	P99       int64          `env:"-" name:"p99" help:"99th percentile of those tokens." default:"6000" placeholder:"N"`
	StreamFor time.Duration  `env:"-" help:"Time that a streamed answer takes." default:"0s"`
}

// simulator returns the simulator of a provider, or nil if none is wanted.
func (f *ProviderFlags) simulator() (*provider.Simulator, error) {
	if f.Provider == "" {
		if f.Requests.N != 0 || f.Tokens.N != 0 || f.Burst != 0 || f.Key != "" || f.StreamFor != 0 {
			return nil, errors.New("--requests, --tokens, --burst, --key and --stream-for need --provider")
		}
		return nil, nil
	}
	if f.StreamFor < 0 || f.StreamFor > time.Hour {
		return nil, fmt.Errorf("--stream-for %v: must be from 0s to 1h", f.StreamFor)
	}
	s, err := provider.New(provider.Options{
		Provider: f.Provider, Requests: f.Requests, Tokens: f.Tokens, Burst: f.Burst, Key: f.Key, Seed: f.Seed,
		StreamFor: f.StreamFor, Median: f.Median, P99: f.P99,
	})
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	return s, nil
}

// totals are what a sink prints as JSON at its end.
type totals struct {
	sink.Totals
	Provider *provider.Stats `json:"provider,omitempty"`
}

func statsOf(s *provider.Simulator) *provider.Stats {
	if s == nil {
		return nil
	}
	stats := s.Stats()
	return &stats
}

// shownAccounts is the maximum number of accounts in a report.
const shownAccounts = 10

// budgets reports what each API key used.
func budgets(s provider.Stats) string {
	var b strings.Builder
	for i := range s.Accounts {
		if i == shownAccounts {
			fmt.Fprintf(&b, "and %d more keys\n", len(s.Accounts)-i)
			break
		}
		a := &s.Accounts[i]
		fmt.Fprintf(&b, "key %s: %s in %s, %d of them throttled with 429\n",
			show.Text(a.Key), show.Count(a.Calls, "call"), show.Duration(a.For), a.Throttled)
		budget(&b, "requests", &a.Requests)
		budget(&b, "tokens", &a.Tokens)
		fmt.Fprintf(&b, "  window law at %s needs %v of slack\n", a.Requests.Limit, a.Slack.Round(time.Microsecond))
	}
	return b.String()
}

func budget(b *strings.Builder, unit string, u *provider.Budget) {
	switch {
	case u.Limit.N != 0:
		fmt.Fprintf(b, "  %-8s  %d, %.1f%% of %s; at most %d in any period\n", unit, u.Charged, 100*u.Used, u.Limit, u.Most)
	case u.Charged != 0:
		fmt.Fprintf(b, "  %-8s  %d without a limit; at most %d in any minute\n", unit, u.Charged, u.Most)
	}
}
