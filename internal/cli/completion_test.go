package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// completed returns the completions of words, without their help.
func completed(t *testing.T, shell string, words ...string) string {
	t.Helper()
	r := expect(t, ExitDone, "", "", append([]string{"complete", shell, "--"}, words...)...)
	if r.err != "" {
		t.Errorf("%q: said %q", words, r.err)
	}
	var found []string
	for line := range strings.Lines(r.out) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		found = append(found, word)
	}
	return strings.Join(found, " ")
}

func withQueues(t *testing.T, names ...string) (url string) {
	t.Helper()
	url, store := ingressAndStore(t)
	for _, name := range names {
		if _, err := store.Put(t.Context(), queue.Spec{Name: name, Rate: leaky.PerSecond(1)}, queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	return url
}

func TestComplete(t *testing.T) {
	url := withQueues(t, "email", "email.bulk", "emails", "sms", "a", "z")
	t.Setenv("PENSTOCK_URL", url)
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{[]string{"q"}, "queue"},
		{[]string{"dr"}, ""}, // hidden commands stay hidden
		{[]string{"queue", "pur"}, "purge"},
		{[]string{"nonsense", "prov"}, "prove"},
		{[]string{"queue", "info", ""}, "a email email.bulk emails sms z"},
		{[]string{"queue", "info", "e"}, "email email.bulk emails"},
		{[]string{"queue", "info", "email."}, "email.bulk"},
		{[]string{"queue", "info", "a"}, "a"},
		{[]string{"queue", "info", "z"}, "z"},
		{[]string{"queue", "info", "-"}, "--help --server --version --ca --cert --key --header --token-file --profile " +
			"--insecure-token --output"},
		{[]string{"queue", "info", "--", "s"}, "sms"},
		{[]string{"queue", "set", "email", "--max-b"}, "--max-bytes"},
		{[]string{"queue", "set", "email", "--lane-max"}, "--lane-max-bytes --lane-max-in-flight"},
		{[]string{"queue", "info", "\x00"}, ""},
		{[]string{"queue", "info", "\xff"}, ""},
		{[]string{"queue", "info", "sms", ""}, ""},
		{[]string{"queue", "set", "sms", "adapt"}, "adapt.floor= adapt.ceiling="},
		{[]string{"queue", "set", "sms", "rate=1/s", "retry.d"}, "retry.deadline="},
		{[]string{"queue", "set", "sms", "circuit.o"}, "circuit.off="},
		{[]string{"queue", "set", "sms", "pull="}, "pull=true pull=false"},
		{[]string{"queue", "set", "sms", "on_unknown="}, "on_unknown=retry on_unknown=hold on_unknown=dead"},
		{[]string{"queue", "set", "sms", "capacity="}, ""},
		{
			[]string{"queue", "set", "sms", "limits"}, "limits.0.unit= limits.0.rate= limits.0.burst= limits.0.quota=" +
				" limits.0.timezone= limits.0.ramp.factor= limits.0.ramp.until= limits.0.ramp.from= limits.0.ramp.idle=",
		},
		{[]string{"queue", "forecast", "sms", "--set", "retry.d"}, "retry.deadline="},
		{[]string{"queue", "forecast", "sms", "--set=pull="}, "--set=pull=true --set=pull=false"},
		{[]string{"queue", "forecast", "--set", "burst=2", "s"}, "sms"},
		{[]string{"job", "get", "s"}, "sms"},
		{[]string{"dead", "rm", "s"}, "sms"},
		{[]string{"dead", "rm", "sms", "s"}, ""},
		{[]string{"push", "-f", "x", "s"}, "sms"},
		{[]string{"push", "-fx", "--no-wait", "--lane", "sms", "s"}, "sms"},
		{[]string{"push", "--lane=x", "s"}, "sms"},
		{[]string{"push", "--lane", "s"}, ""},
		{[]string{"push", "--file", "x"}, ":files"},
		{[]string{"push", "-f", ""}, ":files"},
		{[]string{"push", "--file=x"}, ":files"},
		{[]string{"push", "--format", ""}, "ndjson csv"},
		{[]string{"top", "--sort", "re"}, "refused"},
		{[]string{"top", "--sort=re"}, "--sort=refused"},
		{[]string{"top", "-o", ""}, "table json"},
		{[]string{"top", "--nonsense", "--on"}, "--once"},
		{[]string{"top", "--nonsense="}, ""},
		{[]string{"completion", "f"}, "fish"},
		{[]string{"completion", "fish", ""}, ""},
		{[]string{"-s", "http://127.0.0.1:1", "queue", "info", "s"}, ""},
		{[]string{"--server=http://127.0.0.1:1", "queue", "info", "s"}, ""},
		{[]string{"-shttp://127.0.0.1:1", "queue", "info", "s"}, ""},
		{[]string{"-s", "nonsense", "queue", "info", "s"}, ""},
		{[]string{"-s", "http://127.0.0.1:1", "queue", "info", "--server", url, "s"}, "sms"},
	} {
		if got := completed(t, "zsh", tt.words...); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.words, got, tt.want)
		}
	}
	all := completed(t, "fish")
	if !strings.HasPrefix(all, "up ") || !strings.Contains(all, " queue ") || strings.Contains(all, "drainer") {
		t.Errorf("nothing typed: %q", all)
	}
	expect(t, ExitDone, "queue\tManage queues.\n", "", "complete", "fish", "--", "qu")
	for line, want := range map[string]string{
		"":                                    all,
		"penstock":                            all,
		"penstock q":                          "queue",
		"  ./bin/penstock \t  queue  info  s": "sms",
		"penstock top --sort=re":              "refused",
		"penstock top --sort=":                "trouble fullness name size in out refused deferred lost delay finish",
		`penstock queue pause --reason "too many" s`:            "sms",
		`penstock queue pause --reason 'too "many' s`:           "sms",
		`penstock queue pause --reason too\ many s`:             "sms",
		`penstock queue pause --reason "too many`:               "",
		`penstock -s http://127.0.0.1:1 queue info s`:           "",
		`penstock queue info -s ` + url + ` email.`:             "email.bulk",
		`penstock queue info '' `:                               "",
		`penstock push -f x --not-before 2026-01-01T00:00:00 s`: "sms",
	} {
		if got := completed(t, "bash", line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// Completion does not wait for a server that hangs, and ignores invalid names.
func TestCompleteWithABadServer(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("after") != "" {
			<-hang
		}
		_, _ = io.WriteString(
			w, `{"queues":[{"name":"good"},{"name":"$(rm -rf .)"},{"name":"two\nlines"},{"name":"\u001b[2J"},{"name":""}]}`,
		)
	}))
	defer server.Close()
	defer close(hang)
	t.Setenv("PENSTOCK_URL", server.URL)
	if got := completed(t, "zsh", "queue", "info", ""); got != "good" {
		t.Errorf("%q", got)
	}
	defer func(before time.Duration) { patience = before }(patience)
	patience = atAShell
	if got := completed(t, "zsh", "queue", "info", "g"); got != "" {
		t.Errorf("%q", got)
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		expect(t, ExitDone, " complete "+shell+" -- ", "", "completion", shell)
	}
	expect(t, ExitUsage, "", "must be one of", "completion", "csh")
	expect(t, ExitUsage, "", "expected", "completion")
	if !slices.Contains(strings.Fields(completed(t, "zsh", "completion", "")), "bash") {
		t.Error("completion is not completed")
	}
}
