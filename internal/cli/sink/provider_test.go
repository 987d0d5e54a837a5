package sink

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/provider"
)

// call makes a call to a simulated provider.
// answered is the beginning of an answer.
type answered struct {
	StatusCode int
	Header     http.Header
}

func call(t *testing.T, url, body string) (_ *answered, text string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(
		t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body),
	)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk-test")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	return &answered{resp.StatusCode, resp.Header}, string(all), err
}

// A provider answers what does not fail, and failures have its form.
func TestSinkOfAProvider(t *testing.T) {
	simulator, err := provider.New(provider.Options{
		Provider: provider.OpenAI, Requests: provider.Limit{N: 2, Per: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	// Two of the die for each request: its connection, its fate. A request for /stats has no fate.
	s, url, shown, _ := started(t, Options{
		Provider: simulator, Fail: 0.1, Drop: 0.1, RetryAfter: 2500 * time.Millisecond,
		random: turns(0.5, 0.15, 0.5, 0.05, 0.5, 0.25),
	})
	const body = `{"model": "sim-small", "messages": [{"role": "user", "content": "hello"}]}`
	resp, text, err := call(t, url, body)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "3" ||
		!strings.Contains(text, "server_error") {
		t.Errorf("one that fails: %v, %v, %s", resp, err, text)
	}
	if resp, _, err := call(t, url, body); err == nil {
		t.Errorf("one that is dropped: %v", resp)
	}
	for _, want := range []int{200, 200, 429} {
		if resp, text, err := call(t, url, body); err != nil || resp.StatusCode != want {
			t.Errorf("want %d: %v, %v, %s", want, resp, err, text)
		}
	}
	stream := strings.Replace(body, "{", `{"stream": true, `, 1)
	if resp, text, err := call(t, url, stream); err != nil || resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("%v, %v, %s", resp, err, text)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+provider.StatsPath, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := http.DefaultClient.Do(req)
	if err != nil || stats.StatusCode != http.StatusOK {
		t.Fatal(stats, err)
	}
	_ = stats.Body.Close()
	sum := s.Totals()
	if sum.Requests != 6 || sum.Answers["503"] != 1 || sum.Answers[Dropped] != 1 || sum.Answers["200"] != 2 ||
		sum.Answers["429"] != 2 {
		t.Errorf("totals %+v", sum)
	}
	if q := shown()[2]; q.Body != body || q.Bytes != int64(len(body)) || q.Answer != "200" {
		t.Errorf("it showed %+v", q)
	}
	if a := simulator.Stats().Accounts; len(a) != 1 || a[0].Calls != 4 || a[0].Throttled != 2 {
		t.Errorf("%+v", a)
	}
}
