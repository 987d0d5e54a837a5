package cli

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/cli/embedded"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/preset"
)

// withSecrets starts a server that may send secrets, as rules NAME=HOST allow.
func withSecrets(t *testing.T, rules ...string) {
	t.Helper()
	source := secrets.Source{}
	for _, text := range rules {
		rule, err := secrets.ParseAllow(text)
		if err != nil {
			t.Fatal(err)
		}
		source.Allow = append(source.Allow, rule)
	}
	url, stop, err := embedded.Start(t.Context(), embedded.Options{
		Data: t.TempDir(), Listen: ops.Listen{Addr: "127.0.0.1:0"}, Egress: loopback(t), Secrets: source,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("PENSTOCK_URL", url)
}

// presetHosts are the hosts that get the secret of a preset.
var presetHosts = map[string]string{
	"openai": "api.openai.com", "anthropic": "api.anthropic.com", "github": "api.github.com", "twilio": "api.twilio.com",
	"sendgrid": "api.sendgrid.com", "shopify": "my-shop.myshopify.com",
}

func allowPresets(t *testing.T) (rules []string) {
	t.Helper()
	all, err := preset.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		host := presetHosts[p.Name]
		if host == "" {
			t.Fatalf("the test does not know the host of %s", p.Name)
		}
		for _, name := range p.Secrets {
			rules = append(rules, name+"="+host)
		}
	}
	return rules
}

// presetQueue is the settings of a queue that presets change, and some that they must not change.
type presetQueue struct {
	Rate     string
	Capacity int
	Pull     bool
	Deliver  struct {
		HTTP struct {
			URL      string
			Timeout  string
			Headers  map[string]string
			Statuses map[string]string
		}
	}
}

func shownQueue(t *testing.T, name string) (q presetQueue) {
	t.Helper()
	r := expect(t, ExitDone, "{", "", "queue", "info", name, "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &q); err != nil {
		t.Fatal(err)
	}
	return q
}

// A server accepts each preset, by queue set and as a file.
func TestServerAcceptsPresets(t *testing.T) {
	withSecrets(t, append(allowPresets(t), "SHOPIFY_ACCESS_TOKEN=shop.example.com")...)
	for _, name := range preset.Names() {
		args := []string{"queue", "set", "my-" + name, "--preset", name, "rate=7/m"}
		if name == "shopify" {
			expect(t, ExitUsage, "", "placeholder: set yours as deliver.http.url", args...)
			args = append(args, "deliver.http.url=https://my-shop.myshopify.com")
		}
		expect(t, ExitDone, "my-"+name+" created", "", args...)
		q := shownQueue(t, "my-"+name)
		if !q.Pull || q.Rate != "7/m" || q.Deliver.HTTP.URL != "https://"+presetHosts[name] ||
			q.Deliver.HTTP.Statuses["429"] != "throttled" || len(q.Deliver.HTTP.Headers) != 1 {
			t.Errorf("%+v", q)
		}
		expect(t, ExitDone, name+" created", "", "queue", "apply", "-f",
			filepath.Join("..", "..", "examples", "providers", name+".yaml"))
	}
}

// Fields override the preset. The other fields of an existing queue stay, its rate too.
func TestFieldsOverridePresets(t *testing.T) {
	withSecrets(t, "OPENAI_API_KEY=insecure:127.0.0.1:9001")
	set := []string{"queue", "set", "openai", "--preset=openai"}
	const local = "deliver.http.url=http://127.0.0.1:9001/v1"
	expect(t, ExitRefused, "", "to create it, give a rate", append(set, "pull=", local)...)
	expect(t, ExitRefused, "", "OPENAI_API_KEY", append(set, "pull=", "rate=5/s")...) // no rule for the real host
	expect(t, ExitDone, "created", "", "queue", "set", "openai", "rate=5/s", "capacity=7")
	expect(t, ExitDone, "changed", "", append(
		set, local, "deliver.http.timeout=7s", "deliver.http.statuses.503=down",
		"deliver.http.statuses.404=", "pull=",
	)...)
	q := shownQueue(t, "openai")
	got := &q.Deliver.HTTP
	if q.Rate != "5/s" || q.Capacity != 7 || q.Pull ||
		got.URL != "http://127.0.0.1:9001/v1" || got.Timeout != "7s" || got.Statuses["503"] != "down" ||
		got.Statuses["429"] != "throttled" || got.Statuses["404"] != "" {
		t.Errorf("%+v", q)
	}
	expect(t, ExitDone, "unchanged", "", "queue", "set", "openai", "capacity=7")
}

func TestPresetsOnTheCommandLine(t *testing.T) {
	url, _ := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	t.Setenv("PENSTOCK_PRESET", "github") // a variable must not change a queue
	expect(t, ExitUsage, "", "no settings given", "queue", "set", "email")
	expect(t, ExitUsage, "", `no preset "opnai"; the presets are`, "queue", "set", "email", "--preset", "opnai")
	expect(t, ExitUsage, "", "did you mean openai?", "queue", "set", "email", "--preset", "opnai")
	expect(t, ExitUsage, "", "the presets are anthropic, github, openai, sendgrid, shopify, twilio", "queue", "set",
		"email", "--preset", "none", "rate=1/s")
	help := expect(t, ExitDone, "Presets set pull", "", "queue", "set", "--help")
	for _, name := range preset.Names() {
		if !strings.Contains(help.out, "  "+name+" ") {
			t.Errorf("the help does not list %s", name)
		}
		files, err := os.ReadFile(filepath.Join("..", "..", "examples", "providers", name+".yaml"))
		if err != nil || !strings.Contains(string(files), "https://") {
			t.Errorf("%s names no source: %v", name, err)
		}
	}
	if got := completed(t, "zsh", "queue", "set", "email", "--preset", "s"); got != "sendgrid shopify" {
		t.Errorf("%q", got)
	}
}
