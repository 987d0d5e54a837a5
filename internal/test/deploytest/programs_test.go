package deploytest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/asynq"
	"github.com/penstock/penstock/internal/cli"
)

// program is one of ours, as its own help tells of it.
type program struct {
	// flags by the environment variable that stands for each.
	flags map[string]string
	// grace is how long it goes on after SIGTERM.
	grace time.Duration
	// parse gives it a command line, and the error if it cannot read that. It gets no further.
	parse func(t *testing.T, args []string) error
}

// programs are those that serve, by how their command lines begin.
var programs = sync.OnceValue(func() map[string]program {
	daemon := func(name string, run func(context.Context, []string, io.Writer, io.Writer) error) program {
		var help bytes.Buffer
		_ = run(context.Background(), []string{"--help"}, &help, io.Discard) // ErrHelp
		return tell(help.String(), func(_ *testing.T, args []string) error {
			err := run(ended(), args, io.Discard, io.Discard)
			if err != nil && strings.Contains(err.Error(), "see "+name+" --help") {
				return err
			}
			return nil
		})
	}
	operator := func(args []string) (string, string, cli.Exit) {
		var out, errs bytes.Buffer
		code := cli.Run(ended(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		return out.String(), errs.String(), code
	}
	help, _, _ := operator([]string{"up", "--help"})
	up := tell(help, func(t *testing.T, args []string) error {
		args = append([]string{"up"}, args...)
		args = append(args, "--data="+t.TempDir(), "--listen=127.0.0.1:0") // it does get further
		if _, said, code := operator(args); code == cli.ExitUsage {
			return fmt.Errorf("%s", said)
		}
		return nil
	})
	up.grace = 30 * time.Second // its drainer's; there is no flag
	return map[string]program{
		"ingress": daemon("ingress", app.RunIngress), "drainer": daemon("drainer", app.RunDrainer(asynq.Open)),
		"penstock up": up,
	}
})

// ended is a context in which nothing is waited for.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

var (
	flagOfHelp     = regexp.MustCompile(`(?m)^ {2,6}(?:-\w, )?--([a-z][a-z-]*)`)
	variableOfHelp = regexp.MustCompile(`\$(PENSTOCK_[A-Z_]+)\)`)
	graceOfHelp    = regexp.MustCompile(`SIGTERM\s+\(default\s+(\w+)\)`)
	drainOfHelp    = regexp.MustCompile(`here\s+\(default\s+(\w+)\)`)
)

// tell reads a help text.
func tell(help string, parse func(*testing.T, []string) error) program {
	p := program{flags: map[string]string{}, parse: parse}
	at := flagOfHelp.FindAllStringSubmatchIndex(help, -1)
	for i, m := range at {
		end := len(help)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		if v := variableOfHelp.FindStringSubmatch(help[m[0]:end]); v != nil {
			p.flags[v[1]] = help[m[2]:m[3]]
		}
	}
	if m := graceOfHelp.FindStringSubmatch(help); m != nil {
		p.grace, _ = time.ParseDuration(m[1]) // the test of this file says if that failed
	}
	if m := drainOfHelp.FindStringSubmatch(help); m != nil {
		drain, _ := time.ParseDuration(m[1])
		p.grace += drain
	}
	return p
}

// What the others rely on is in the help.
func TestPrograms(t *testing.T) {
	for name, p := range programs() {
		if p.flags["PENSTOCK_LISTEN"] != "listen" || p.flags["PENSTOCK_TLS_CERT"] != "tls-cert" || p.grace < 10*time.Second {
			t.Errorf("%s: read of its help: %+v", name, p)
		}
		if name == "ingress" && p.grace != 15*time.Second {
			t.Errorf("%s goes on for %v by its help, want its --drain-delay and --grace", name, p.grace)
		}
		if err := p.parse(t, []string{"--no-such-flag"}); err == nil || !strings.Contains(err.Error(), "no-such-flag") {
			t.Errorf("%s takes a flag that it does not have: %v", name, err)
		}
		if err := p.parse(t, []string{"--redis=redis://127.0.0.1:1"}); (err == nil) != (name != "penstock up") {
			t.Errorf("%s --redis: %v", name, err)
		}
	}
}

// started says what is wrong with a command line of ours in an environment, and which program it is.
func started(t *testing.T, argv []string, environment map[string]string) (p program, found faults) {
	name, args := argv[0], argv[1:]
	name = name[strings.LastIndex(name, "/")+1:]
	if name == "penstock" && len(args) > 0 {
		name, args = name+" "+args[0], args[1:]
	}
	p, ok := programs()[name]
	if !ok {
		found.add("%q is no program that serves", name)
		return p, found
	}
	all := append([]string{}, args...)
	for variable, value := range environment {
		flag, ok := p.flags[variable]
		switch {
		case ok:
			all = append(all, "--"+flag+"="+value)
		case strings.HasPrefix(variable, "PENSTOCK_"):
			found.add("%s does not know %s", name, variable)
		}
	}
	if err := p.parse(t, all); err != nil {
		found.add("%s cannot read its command line: %v", name, err)
	}
	return p, found
}
