package docs

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/asynq"
	"github.com/penstock/penstock/internal/cli"
)

var (
	fileName = regexp.MustCompile(
		`^[A-Za-z0-9_./*@-]*(\.(go|lua|md|yaml|yml|json|ndjson|csv|log|py|svg|conf|service|env|sh)|/)$`,
	)
	flagName   = regexp.MustCompile(`(?:^|[ ([])--([a-z][a-z-]*)`)
	metricName = regexp.MustCompile(`\bpenstock_[a-z_]+[a-z]\b`)
	helpEntry  = regexp.MustCompile(`(?m)^  ([a-z][a-z -]*?)  +[A-Z]`)
	ours       = regexp.MustCompile(`^(?:bin/)?(ingress|drainer|penstock)\b(.*)$`)
)

// names checks that the files, flags and metrics in the text exist.
func (p *page) names(t testing.TB) {
	t.Helper()
	for _, s := range p.spans {
		// A relative path is a file of the repository.
		if fileName.MatchString(s.code) && strings.Contains(s.code, "/") && !strings.HasPrefix(s.code, "/") &&
			!p.has(s.code) {
			t.Errorf("%s: there is no %s", p.at(s.line), s.code)
		}
		if strings.HasPrefix(s.code, "--") || ours.MatchString(s.code) {
			for _, m := range flagName.FindAllStringSubmatch(s.code, -1) {
				if !slices.ContainsFunc(programs(), func(c command) bool { return c.knows(m[1]) }) {
					t.Errorf("%s: no program has --%s", p.at(s.line), m[1])
				}
			}
		}
		for _, m := range metricName.FindAllString(s.code, -1) {
			if m != "penstock_server" && !strings.Contains(metrics(), m) { // that is a fixture of pytest
				t.Errorf("%s: no metric is called %s", p.at(s.line), m)
			}
		}
	}
}

// has reports whether a file exists, relative to the page or the root.
func (p *page) has(name string) bool {
	for _, at := range []string{name, p.beside(name)} {
		if found, err := filepath.Glob(filepath.Join(root, at)); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// command is one of our commands with its --help text.
type command struct{ name, help string }

func (c command) knows(flag string) bool {
	return regexp.MustCompile(`(?m)(^|[ ,])--(\[no-\])?` + regexp.QuoteMeta(flag) + `\b`).MatchString(c.help)
}

// programs are all our commands.
var programs = sync.OnceValue(func() (all []command) {
	help := func(args ...string) string {
		var out bytes.Buffer
		cli.Run(
			context.Background(), append(args, "--help"), cli.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard},
		)
		return out.String()
	}
	for _, m := range helpEntry.FindAllStringSubmatch(help(), -1) {
		all = append(all, command{"penstock " + m[1], help(strings.Fields(m[1])...)})
	}
	for name, run := range map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"ingress": app.RunIngress, "drainer": app.RunDrainer(asynq.Open),
	} {
		var out bytes.Buffer
		_ = run(context.Background(), []string{"--help"}, &out, io.Discard) // ErrHelp
		all = append(all, command{name, out.String()})
	}
	return all
})

// understood checks one of our command lines against its help.
func understood(t testing.TB, where, line string) {
	t.Helper()
	m := ours.FindStringSubmatch(line)
	words := strings.Fields(m[1] + " " + m[2])
	best := command{}
	for _, c := range programs() {
		if name := strings.Fields(c.name); len(words) >= len(name) && slices.Equal(words[:len(name)], name) &&
			len(c.name) > len(best.name) {
			best = c
		}
	}
	if best.name == "" && !strings.HasPrefix(strings.TrimSpace(m[2]), "--") {
		t.Errorf("%s: %s is no command of ours", where, line)
		return
	}
	for _, flag := range flagName.FindAllStringSubmatch(m[2], -1) {
		if best.name != "" && !best.knows(flag[1]) {
			t.Errorf("%s: %s has no --%s", where, best.name, flag[1])
		}
	}
}

// metrics is the text of the metrics page, which a test of internal/app checks against the program.
var metrics = sync.OnceValue(func() string {
	text, err := os.ReadFile("metrics.md")
	if err != nil {
		panic(err)
	}
	return string(text)
})
