package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/redistest"
)

// Every flag is explained and can be given in the environment.
func TestFlagsAreExplained(t *testing.T) {
	for name, cli := range map[string]struct {
		flags any
		vars  kong.Vars
	}{"ingress": {&ingressFlags{}, ingressVars()}, "drainer": {&drainerFlags{}, drainerVars()}} {
		parser, err := newParser(cli.flags, name, "", io.Discard, io.Discard, cli.vars, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, f := range parser.Model.Flags {
			if f.Name == "help" || f.Name == "version" {
				continue
			}
			seen++
			if len(f.Help) < 20 || !strings.HasSuffix(strings.TrimSuffix(f.Help, ")"), ".") &&
				!strings.Contains(f.Help, "default") {
				t.Errorf("%s --%s: help %q is not a sentence", name, f.Name, f.Help)
			}
			want := "PENSTOCK_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
			if len(f.Envs) != 1 || f.Envs[0] != want {
				t.Errorf("%s --%s: environment %v, want %s", name, f.Name, f.Envs, want)
			}
		}
		if seen < 12 {
			t.Errorf("%s has %d flags", name, seen)
		}
	}
}

// programs are the two, as far as their flags go.
var programs = map[string]func(context.Context, []string, io.Writer, io.Writer) error{
	"ingress": RunIngress, "drainer": RunDrainer(nil),
}

func TestHelp(t *testing.T) {
	for name, run := range programs {
		var out strings.Builder
		if err := run(t.Context(), []string{"--help"}, &out, io.Discard); !errors.Is(err, ErrHelp) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range []string{
			"--redis=URL", "$PENSTOCK_REDIS", "--config", "--init", "--listen", "$PENSTOCK_LOG_FORMAT",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s --help does not tell of %s", name, want)
			}
		}
		out.Reset()
		if err := run(t.Context(), []string{"--version"}, &out, io.Discard); !errors.Is(err, ErrHelp) ||
			strings.TrimSpace(out.String()) == "" {
			t.Errorf("%s --version: %q, %v", name, out.String(), err)
		}
	}
}

func TestBadStarts(t *testing.T) {
	t.Setenv("PENSTOCK_NO_AUTH", "false")
	server := redistest.New(t, redistest.Options{})
	file := filepath.Join(t.TempDir(), "queues.yaml")
	if err := os.WriteFile(
		file, []byte("queues:\n  - name: email\n    rate: 14/s\n    deliver: {http: {url: \"ftp://x\"}}\n"), 0o600,
	); err != nil {
		t.Fatal(err)
	}
	url := server.URL()
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--redis"},
		{[]string{"--redis", url, "--colour"}, "--colour"},
		{[]string{"--redis", url, "extra"}, "extra"},
		{[]string{"--redis", url, "--log-level", "loud"}, "--log-level"},
		{[]string{"--redis", url, "--grace", "soon"}, "--grace"},
		{[]string{"--redis", url, "--grace=-1s"}, "--grace -1s: must not be negative"},
		{[]string{"--redis", url, "--partitions", "many"}, "--partitions"},
		{[]string{"--redis", url, "--partitions", "0"}, "--partitions 0: must be at least 1"},
		{[]string{"--redis", url, "--queue-labels", "0"}, "--queue-labels 0: must be at least 1"},
		{
			[]string{"--redis", url, "--nats-replicas", "2", "--nats", "nats://127.0.0.1:1"},
			"--nats-replicas 2: must be 1, 3 or 5",
		},
		{
			[]string{"--redis", url, "--nats-max-bytes", "lots", "--nats", "nats://127.0.0.1:1"},
			"--nats-max-bytes lots: must be a size",
		},
		{[]string{"--redis", url, "--nats-max-bytes", "1KB", "--nats", "nats://127.0.0.1:1"}, "at least 1MiB"},
		{[]string{"--redis", url, "--nats-tls-cert", "x", "--nats", "nats://127.0.0.1:1"}, "--nats-tls-key"},
		{[]string{"--redis", url, "--nats-creds", "x"}, "--nats is missing"},
		{[]string{"--redis", url}, "--init"},
		{[]string{"--redis", "mysql://x"}, "--redis"},
		{[]string{"--redis", url, "--init", "--config", "/does/not/exist.yaml"}, "--config"},
		{[]string{"--redis", url, "--init", "--config", file}, file + ":4:"},
		{[]string{"--redis", url, "--init", "--listen", "8080"}, "--listen"},
		{[]string{"--redis", url, "--init", "--listen", "0.0.0.0:0"}, "--insecure"},
		{[]string{"--redis", url, "--init", "--listen", ":0"}, "--insecure"},
		{[]string{"--redis", url, "--init", "--listen", "127.0.0.1:0", "--tls-cert", "x"}, "--tls-key"},
		{
			[]string{"--redis", url, "--init", "--listen", "127.0.0.1:0", "--tls-cert", "/none", "--tls-key", "/none"},
			"--tls-cert",
		},
	} {
		for name, run := range programs {
			err := run(t.Context(), c.args, io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %v: %v does not say %q", name, c.args, err, c.want)
			}
		}
	}
}

// Whatever is wrong with a command line or a file ends a program with the exit code of that.
func TestMisuse(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "queues.yaml")
	if err := os.WriteFile(bad, []byte("queues: [{name: email, rate: 0/s}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--nonsense"},
		{"--redis", "nonsense://"},
		{"--redis", "redis://127.0.0.1:1", "--egress-allow", "10.0.0.0/99"},
		{"--redis", "redis://127.0.0.1:1", "--config", bad},
		{"--redis", "redis://127.0.0.1:1", "--config", "/does/not/exist"},
		{"--redis", "redis://127.0.0.1:1", "--queue-labels", "0"},
	} {
		for name, program := range map[string]Program{"ingress": RunIngress, "drainer": RunDrainer(nil)} {
			if err := program(t.Context(), args, io.Discard, io.Discard); !ops.IsMisuse(err) {
				t.Errorf("%s %v: %v is not said to be misuse", name, args, err)
			}
		}
	}
	if err := RunIngress(t.Context(), []string{"--redis", "redis://127.0.0.1:1"}, io.Discard, io.Discard); err != nil &&
		ops.IsMisuse(err) {
		t.Errorf("a Redis that is away is said to be misuse: %v", err)
	}
}

// Durations in logs say their unit.
func TestLogsSpellDurations(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var b bytes.Buffer
		f := storeFlags{LogLevel: "info", LogFormat: format}
		f.logger(&b).With("grace", 30*time.Second).Info(
			"x", "took", 2500*time.Microsecond, "group", slog.GroupValue(slog.Duration("wait", time.Minute)),
		)
		for _, want := range []string{"2.5ms", "30s", "1m0s"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("no %s in %s", want, b.String())
			}
		}
	}
}

// What 0 cannot mean is refused: it must not quietly be the default.
func TestZeros(t *testing.T) {
	for name, flag := range map[string]string{"ingress": "--max-connections", "drainer": "--concurrency"} {
		for _, value := range []string{"0", "-1"} {
			err := programs[name](
				t.Context(), []string{"--redis", "redis://127.0.0.1:1", flag + "=" + value}, io.Discard, io.Discard,
			)
			if want := flag + " " + value + ": must be at least 1"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", name, err, want)
			}
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("PENSTOCK_REDIS", "redis://h1,h2")
	for name, run := range programs {
		if err := run(t.Context(), nil, io.Discard, io.Discard); err == nil ||
			!strings.Contains(err.Error(), "several hosts") {
			t.Errorf("%s: %v", name, err)
		}
		if err := run(t.Context(), []string{"--redis", "redis://h/x"}, io.Discard, io.Discard); err == nil ||
			!strings.Contains(err.Error(), "number") {
			t.Errorf("%s: a flag does not go before the environment: %v", name, err)
		}
	}
}
