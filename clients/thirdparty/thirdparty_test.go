package thirdparty

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// succeeded checks that all calls got their answers. Streamed answers come in more than one piece.
func succeeded(t *testing.T, p program, reports []report, calls int, retried bool) {
	t.Helper()
	if len(reports) != calls {
		t.Errorf("%s reported %d of %d calls", p.name, len(reports), calls)
	}
	for i := range reports {
		r := &reports[i]
		n := len(r.Statuses)
		if r.Error != "" || n == 0 || r.Statuses[n-1] != http.StatusOK || !retried && n != 1 || r.Tokens < 2 || r.Pieces < 1 {
			t.Errorf("%s, call %d: %+v", p.name, i, *r)
		}
	}
	if !slices.ContainsFunc(reports, func(r report) bool { return r.Stream && r.Pieces > 1 }) {
		t.Errorf("%s: no answer came in pieces: %+v", p.name, reports)
	}
}

// The libraries take the simulator for the provider.
func TestLibrariesAgainstTheSimulator(t *testing.T) {
	for _, p := range programs(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			url := simulate(t, p.provider, "--requests", "600/m", "--tokens", "1000000/m")
			succeeded(t, p, p.run(t, url, providerKey, []string{"6", "mixed"}), 6, false)
			if s := statsOf(t, url); s.Statuses["200"] != 6 || len(s.Statuses) != 1 {
				t.Errorf("%+v", s)
			}
			failed(t, p, p.run(t, url, "sk-wrong", []string{"1"}), 401, "AuthenticationError", "Incorrect API key")
		})
	}
}

// failed checks that a call failed with a status, and with the library's own type of error.
func failed(t *testing.T, p program, reports []report, status int, class, message string) {
	t.Helper()
	if p.command[0] != "node" { // the others have no errors of the provider's own
		class = ""
	}
	if len(reports) == 0 {
		t.Errorf("%s reported nothing", p.name)
		return
	}
	r := &reports[len(reports)-1]
	if r.Status != status || class != "" && r.Error != class || !strings.Contains(r.Message, message) {
		t.Errorf("%s: %+v, want a %s of status %d with %q", p.name, *r, class, status, message)
	}
}

// The libraries retry the simulator's 429, and then fail with their own type of error.
func TestLibrariesRetryThe429OfTheSimulator(t *testing.T) {
	for _, p := range programs(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			// One request per hour: the second is refused, however slow this machine is.
			url := simulate(t, p.provider, "--requests", "1/h", "--fail", "100%", "--status", "429", "--retry-after", "1s")
			reports := p.run(t, url, providerKey, []string{"1"})
			failed(t, p, reports, 429, "RateLimitError", "asked for")
			if len(reports) == 1 && !slices.Equal(reports[0].Statuses, []int{429, 429, 429}) {
				t.Errorf("%s: %v", p.name, reports[0].Statuses)
			}
		})
	}
}

// Through the proxy, processes of all libraries share the budget, and none of them sees a 429.
func TestLibrariesThroughTheProxy(t *testing.T) {
	providers := map[string]string{}
	for _, name := range []string{"openai", "anthropic"} {
		providers[name] = simulate(t, name, "--requests", "600/m", "--burst", "30")
	}
	s := up(t, "600/m", providers)
	const processes, calls = 2, 8
	var wg sync.WaitGroup
	for _, p := range programs(t) {
		for range processes {
			wg.Go(func() {
				base := s.URL + "/proxy/" + p.provider
				reports := p.run(t, base, s.Token, []string{"8", "mixed"})
				succeeded(t, p, reports, calls, false)
			})
		}
	}
	wg.Wait()
	for name, want := range map[string]int{"openai": 3 * processes * calls, "anthropic": processes * calls} {
		got := statsOf(t, providers[name])
		if got.Statuses["200"] != want || len(got.Statuses) != 1 {
			t.Errorf("%s: %+v, want %d answers with 200", name, got, want)
		}
	}
}

// The libraries understand the errors of the proxy itself.
func TestLibrariesUnderstandErrorsOfTheProxy(t *testing.T) {
	for _, p := range programs(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			url := simulate(t, p.provider, "--requests", "600/m")
			s := up(t, "1/h", map[string]string{p.provider: url})
			base := s.URL + "/proxy/" + p.provider
			reports := p.run(t, base, s.Token, []string{"2"}, "MAX_RETRIES=0")
			failed(t, p, reports, 429, "RateLimitError", "")
			if len(reports) != 2 || reports[0].Error != "" || strings.Contains(reports[1].Message, "no body") {
				t.Errorf("%s: %+v", p.name, reports)
			}
			failed(t, p, p.run(t, base, "ps_wrong", []string{"1"}), 401, "AuthenticationError", "")
			failed(t, p, p.run(t, s.URL+"/proxy/unknown", s.Token, []string{"1"}), 404, "NotFoundError", "")
			if got := statsOf(t, url); got.Statuses["200"] != 1 || len(got.Statuses) != 1 {
				t.Errorf("the provider saw %+v", got)
			}
		})
	}
}
