package httptarget

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/test/keytest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func TestBudgetOf(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	date := "Tue, 01 Dec 2026 12:00:00 GMT"
	for name, c := range map[string]struct {
		learn string
		h     http.Header
		want  queue.Budget
		wrong string // part of the error
	}{
		"nothing":     {"", http.Header{"X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"9"}}, queue.Budget{}, ""},
		"no fields":   {"openai", nil, queue.Budget{}, ""},
		"openai":      {"openai", openAI("17", "1m30.5s"), queue.Budget{Remaining: 17, Reset: 90500 * time.Millisecond}, ""},
		"openai soon": {"openai", openAI("499", "120ms"), queue.Budget{Remaining: 499, Reset: 120 * time.Millisecond}, ""},
		"openai, fewer tokens": {
			"openai", with(openAI("17", "60s"), "X-Ratelimit-Remaining-Tokens", "9999", "X-Ratelimit-Reset-Tokens", "60s"),
			queue.Budget{Remaining: 9, Reset: time.Minute},
			"",
		},
		"openai, more tokens": {
			"openai", with(openAI("17", "60s"), "X-Ratelimit-Remaining-Tokens", "19000", "X-Ratelimit-Reset-Tokens", "60s"),
			queue.Budget{Remaining: 17, Reset: time.Minute},
			"",
		},
		"openai, no tokens, which does not stop the queue": {
			"openai", with(openAI("17", "60s"), "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "60s"),
			queue.Budget{Remaining: 1, Reset: time.Minute},
			"",
		},
		"openai, requests that are not a number": {
			"openai", with(openAI("-1", "60s"), "X-Ratelimit-Remaining-Tokens", "4000", "X-Ratelimit-Reset-Tokens", "60s"),
			queue.Budget{Remaining: 4, Reset: time.Minute},
			"not a number",
		},
		"anthropic, a unit that the queue does not count": {
			"anthropic", with(nil, "Anthropic-Ratelimit-Input-Tokens-Remaining", "-1",
				"Anthropic-Ratelimit-Input-Tokens-Reset", "2026-12-01T12:00:20Z"),
			queue.Budget{},
			"",
		},
		"anthropic, by its own clock": {"anthropic", http.Header{
			"Date": {"Tue, 01 Dec 2026 11:59:00 GMT"}, "Anthropic-Ratelimit-Requests-Remaining": {"3"},
			"Anthropic-Ratelimit-Requests-Reset": {"2026-12-01T11:59:20Z"},
		}, queue.Budget{Remaining: 3, Reset: 20 * time.Second}, ""},
		"github": {"github", http.Header{
			"Date": {date}, "X-Ratelimit-Remaining": {"4000"}, "X-Ratelimit-Reset": {"1796128200"},
		}, queue.Budget{Remaining: 4000, Reset: 30 * time.Minute}, ""},
		"over already": {"github", http.Header{
			"Date": {date}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1796126399"},
		}, queue.Budget{Reset: time.Microsecond}, ""},
		"github, of the search": {"github", http.Header{
			"Date": {date}, "X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Reset": {"1796126430"}, headerResource: {"search"},
		}, queue.Budget{}, ""},
		"shopify": {
			"shopify",
			http.Header{headerShopify: {"32/40"}},
			queue.Budget{Remaining: 8, Reset: 16 * time.Second},
			"",
		},
		"ietf": {
			"ietf",
			http.Header{"Ratelimit": {`"day";r=900;t=3600, "minute";r=5;t=60`}},
			queue.Budget{Remaining: 5, Reset: time.Minute},
			"",
		},
		"ietf, window of the policy": {"ietf", http.Header{
			"Ratelimit": {`"a";r=5`}, "Ratelimit-Policy": {`"a";q=10;w=60`},
		}, queue.Budget{Remaining: 5, Reset: time.Minute}, ""},
		"ietf, draft 7": {
			"ietf",
			http.Header{"Ratelimit": {"limit=10, remaining=4, reset=8"}},
			queue.Budget{Remaining: 4, Reset: 8 * time.Second},
			"",
		},
		"ietf, older": {
			"ietf",
			http.Header{"X-Ratelimit-Remaining": {"4"}, "X-Ratelimit-Reset": {"8"}},
			queue.Budget{Remaining: 4, Reset: 8 * time.Second},
			"",
		},
		"two fields": {
			"X-Left X-Reset",
			http.Header{"X-Left": {"12"}, "X-Reset": {"2.5"}},
			queue.Budget{Remaining: 12, Reset: 2500 * time.Millisecond},
			"",
		},
		"two fields, in any case, HTTP date": {"x-left x-reset", http.Header{
			"Date": {date}, "X-Left": {"12"}, "X-Reset": {"Tue, 01 Dec 2026 12:00:09 GMT"},
		}, queue.Budget{Remaining: 12, Reset: 9 * time.Second}, ""},
		"Unix time in ms": {
			"X-Left X-Reset",
			http.Header{"Date": {date}, "X-Left": {"1"}, "X-Reset": {"1796126405000"}},
			queue.Budget{Remaining: 1, Reset: 5 * time.Second},
			"",
		},
		"much": {
			"openai", openAI("999999999999", "1s"),
			queue.Budget{Remaining: queue.MaxRemaining, Reset: time.Second},
			"",
		},
		"negative":      {"openai", openAI("-1", "1s"), queue.Budget{}, `"-1" is not a number`},
		"absurd":        {"openai", openAI("1e99", "1s"), queue.Budget{}, `"1e99" is not a number`},
		"not a number":  {"openai", openAI("NaN", "1s"), queue.Budget{}, "not a number"},
		"text":          {"openai", openAI("many", "1s"), queue.Budget{}, "not a number"},
		"no time":       {"openai", openAI("1", "soon"), queue.Budget{}, `"soon" is not a time`},
		"negative time": {"openai", openAI("1", "-5s"), queue.Budget{}, "is not a time"},
		"too far":       {"openai", openAI("1", "25h"), queue.Budget{}, "more than 24h0m0s ahead"},
		"far too far":   {"X-Left X-Reset", http.Header{"X-Left": {"1"}, "X-Reset": {"1e300"}}, queue.Budget{}, "ahead"},
		"twice": {
			"openai",
			http.Header{"X-Ratelimit-Remaining-Requests": {"1", "2"}},
			queue.Budget{},
			"appears 2 times",
		},
		"ietf, negative": {"ietf", http.Header{"Ratelimit": {`"a";r=-5;t=60`}}, queue.Budget{}, "not a number"},
		"ietf, one too far": {
			"ietf",
			http.Header{"Ratelimit": {`"month";r=5;t=99999999, "minute";r=5;t=60`}},
			queue.Budget{Remaining: 5, Reset: time.Minute},
			"ahead",
		},
		"ietf, too far":   {"ietf", http.Header{"Ratelimit": {`"a";r=5;t=99999999`}}, queue.Budget{}, "ahead"},
		"shopify, broken": {"shopify", http.Header{headerShopify: {"32"}}, queue.Budget{}, "not a number"},
		"shopify, more than full": {
			"shopify",
			http.Header{headerShopify: {"50/40"}},
			queue.Budget{Remaining: 0, Reset: 25 * time.Second},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &queue.Spec{Name: "q", Rate: leaky.PerSecond(2), Learn: c.learn}
			got, err := budgetOf(spec, c.h, now, map[string]float64{"tokens": 1000})
			if got != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func openAI(remaining, reset string) http.Header {
	return http.Header{"X-Ratelimit-Remaining-Requests": {remaining}, "X-Ratelimit-Reset-Requests": {reset}}
}

// with returns a copy of headers with further ones: names and values.
func with(h http.Header, more ...string) http.Header {
	h = h.Clone()
	if h == nil {
		h = http.Header{}
	}
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

// No header makes it panic, or yields a budget outside of its bounds.
func FuzzBudgetOf(f *testing.F) {
	f.Add("openai", "12", "1s")
	f.Add("ietf", "12", "1796128200")
	f.Fuzz(func(t *testing.T, learn, remaining, reset string) {
		h := openAI(remaining, reset)
		h["X-Ratelimit-Remaining"], h["X-Ratelimit-Reset"] = []string{remaining}, []string{reset}
		h["X-Ratelimit-Remaining-Tokens"], h["X-Ratelimit-Reset-Tokens"] = []string{remaining}, []string{reset}
		h["Ratelimit"], h[headerShopify] = []string{remaining + ";" + reset}, []string{remaining + "/" + reset}
		b, _ := budgetOf(
			&queue.Spec{Rate: leaky.PerSecond(2), Learn: learn}, h, time.Now(), map[string]float64{"tokens": 1e-9},
		)
		if b.Remaining < 0 || b.Remaining > queue.MaxRemaining || b.Reset < 0 || b.Reset > queue.MaxReset {
			t.Errorf("%+v", b)
		}
	})
}

// What calls use on average outlives an attempt, also of a target with a secret, which is resolved for each attempt.
func TestAverageWithSecrets(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "KEY"), []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := secrets.Source{Dir: dir, Allow: keytest.Allow(t, "KEY=api.openai.com")}
	to := Default()
	if err := setting.Decode([]byte(`{"url": "https://api.openai.com", "headers": {"Authorization": "${secret:KEY}"},
		"actual": {"tokens": {"header": "x-tokens"}}}`), "deliver.http", to); err != nil {
		t.Fatal(err)
	}
	if err := to.Check("deliver.http"); err != nil {
		t.Fatal(err)
	}
	charged := map[string]int64{"tokens": 1000}
	spec := &queue.Spec{Name: "q", Learn: "openai"}
	h := with(nil, "X-Tokens", "6000", "X-Ratelimit-Remaining-Tokens", "60000", "X-Ratelimit-Reset-Tokens", "1m")
	for n, want := range []int64{60, 10} {
		for range 64 * n {
			r, err := to.resolve(source, "q")
			if err != nil {
				t.Fatal(err)
			}
			r.usage.Read(h, charged).End(true)
		}
		r, err := to.resolve(source, "q")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := r.BudgetLeft(spec, h, time.Now(), charged); err != nil || b.Remaining != want {
			t.Errorf("after %d calls %+v, %v, want %d", 64*n, b, err, want)
		}
	}
}
