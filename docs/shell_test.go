package docs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/internal/test/transcript"
)

// site is the environment for the commands of a page: a directory, and servers that replace the ports on the page.
type site struct {
	dir     string
	env     []string          // variables that only this page needs
	servers map[string]string // port on the page -> HOST:PORT here
	running []*daemon
	logsIn  bool // the page itself makes the first token on Redis
}

// daemon is a program of the page that keeps running.
type daemon struct {
	where, line string
	cmd         *exec.Cmd
	said        transcript.Buffer
	want        string // what it is to have said by the end of the page
	done        chan struct{}
}

// daemons are the programs that keep running, and their ports on pages.
var (
	daemons = regexp.MustCompile(
		`^((?:[A-Z_]+=\S+ )*)(?:bin/)?(penstock up|penstock sink|penstock sms-simulator|ingress|drainer|` +
			`python3|node|\./worker)\b(.*)$`,
	)
	usual = map[string]string{
		"penstock up": "8080", "ingress": "8080", "drainer": "8081", "penstock sink": "9000",
		"penstock sms-simulator": "8095",
	}
	address = regexp.MustCompile(`\b(localhost|127\.0\.0\.1):(\d+)`)
	served  = regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`)
)

func newSite(t testing.TB, p *page) *site {
	t.Helper()
	s := &site{dir: t.TempDir(), servers: map[string]string{}}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"penstock", "ingress", "drainer"} {
		write(filepath.Join("bin", name), "#!/bin/sh\n"+asProgram+"="+name+" exec '"+self+"' \"$@\"\n")
	}
	write(".curlrc", "silent\nshow-error\nfail-with-body\n") // a refusal fails the block
	for _, dir := range []string{"deploy", "clients"} {
		if err := os.Symlink(filepath.Join(here, dir), filepath.Join(s.dir, dir)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(s.dir, "examples"), os.DirFS(filepath.Join(here, "examples"))); err != nil {
		t.Fatal(err)
	}
	starts, stores := false, ""
	for _, b := range p.blocks {
		if b.notRun == "" && (b.lang == "sh" || b.lang == "console") {
			stores += b.code
			for _, line := range commands(b) {
				starts = starts || daemons.MatchString(line)
			}
		}
	}
	s.languages(t, here, stores)
	s.logsIn = strings.Contains(stores, "penstock token init")
	if strings.Contains(stores, ":6379") {
		s.servers["6379"] = redistest.New(t, redistest.Options{}).Addr()
	}
	if strings.Contains(stores, ":4222") {
		nats, err := natsserver.Start(t.Context(), natsserver.Options{
			Dir: t.TempDir(), Listen: "127.0.0.1:0", LazySync: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nats.Stop)
		s.servers["4222"] = strings.TrimPrefix(nats.URL(), "nats://")
	}
	if !starts { // a page without a server of its own is about any, such as this one
		server := "penstock up --egress-allow 127.0.0.1"
		if s.servers["6379"] != "" {
			server = "ingress --redis redis://localhost:6379/0 --init"
		}
		s.start(t, p.name, server, "")
	}
	return s
}

// commands returns the commands of a block, with continued lines joined; in a console block, those after the prompt.
func commands(b block) (lines []string) {
	for line := range strings.Lines(strings.ReplaceAll(b.code, "\\\n", " ")) {
		line = strings.TrimRight(line, "\n")
		prompted, is := strings.CutPrefix(line, "$ ")
		switch {
		case b.lang == "sh":
			lines = append(lines, line)
		case is:
			lines = append(lines, prompted)
		}
	}
	return lines
}

// run runs a block.
func (s *site) run(t testing.TB, where string, b block) {
	t.Helper()
	if b.lang == "console" {
		for _, part := range strings.Split("\n"+strings.ReplaceAll(b.code, "\\\n", " "), "\n$ ")[1:] {
			line, want, _ := strings.Cut(part, "\n")
			if daemons.MatchString(line) {
				s.start(t, where, line, want)
			} else if got, _ := s.shell(t, line); !shows(want, got) {
				t.Errorf("%s: the page shows of %s\n%s\nit is\n%s", where, line, want, got)
			}
		}
		return
	}
	script := ""
	finish := func() {
		if out, err := s.shell(t, script); err != nil {
			t.Fatalf("%s: %v\n%s\n%s", where, err, script, out)
		}
		script = ""
	}
	for _, line := range commands(b) {
		if daemons.MatchString(line) {
			finish()
			s.start(t, where, line, "")
		} else {
			script += line + "\n"
		}
	}
	finish()
}

// shell runs a script and returns its output.
func (s *site) shell(t testing.TB, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := s.command(ctx, "set -eo pipefail\n"+script).CombinedOutput()
	return string(out), err
}

// here replaces the addresses on the page by those of the servers.
func (s *site) here(text string) string {
	text = s.mailHere(text)
	return address.ReplaceAllStringFunc(text, func(named string) string {
		_, port, _ := strings.Cut(named, ":")
		if at := s.servers[port]; at != "" {
			return at
		}
		return named
	})
}

func (s *site) command(ctx context.Context, script string) *exec.Cmd {
	script = s.here(script)
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = s.dir
	cmd.WaitDelay = time.Second
	cmd.Env = append([]string{
		"PATH=" + filepath.Join(s.dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir,
		"PENSTOCK_URL=http://" + s.servers["8080"], "GORACE=" + os.Getenv("GORACE"),
	}, s.env...)
	return cmd
}

// start starts a daemon at its own port, and waits until it listens.
func (s *site) start(t testing.TB, where, line, want string) {
	t.Helper()
	m := daemons.FindStringSubmatch(line)
	d := &daemon{where: where, line: line, want: want, done: make(chan struct{})}
	port := usual[m[2]]
	listen := ""
	if port != "" {
		listen = " --listen=127.0.0.1:0 "
	}
	d.cmd = s.command(context.Background(), m[1]+"exec "+m[2]+listen+m[3])
	d.cmd.Stdout, d.cmd.Stderr = &d.said, &d.said
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.done)
		_ = d.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill() // an error means that it has ended
		<-d.done
	})
	s.running = append(s.running, d)
	s.mailAt(t, d)
	if port == "" {
		return
	}
	await.Until(t, line+" listens", func() bool {
		select {
		case <-d.done:
			t.Fatalf("%s: %s ended: %v\n%s", where, line, d.cmd.ProcessState, d.said.String())
		default:
		}
		at := served.FindStringSubmatch(d.said.String())
		if at != nil {
			s.servers[port] = at[1]
		}
		return at != nil
	})
	if m[2] == "ingress" && !s.logsIn { // the first token is made on the machine of the store
		const again = "penstock token init --again --redis redis://localhost:6379/0 | penstock login"
		if out, err := s.shell(t, again); err != nil {
			t.Fatalf("%s: %v\n%s", where, err, out)
		}
	}
	files, err := filepath.Glob(filepath.Join(s.dir, "examples", "*.yaml"))
	for _, name := range files {
		text, read := os.ReadFile(name)
		err = errors.Join(err, read, os.WriteFile(name, []byte(s.here(string(text))), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// end waits until each daemon has printed the output on the page.
func (s *site) end(t testing.TB) {
	t.Helper()
	for _, d := range s.running {
		if d.want != "" {
			defer func() {
				if t.Failed() {
					t.Logf("%s said\n%s", d.line, d.said.String())
				}
			}()
			await.Until(t, d.where+": "+d.line+" says what the page shows", func() bool {
				return regexp.MustCompile(`(?m)^` + pattern(d.want) + `$`).MatchString(even(d.said.String()))
			})
		}
	}
}

var (
	varying = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?|\b\d\d:\d\d:\d\d(\.\d+)?\b`)
	lasting = regexp.MustCompile(`\b(\d+m)?\d+\.\d+(ms|us|s)\b`)
	blanks  = regexp.MustCompile(`[ \t]+`)
)

// shows reports whether an output matches the page, ignoring times, fractions of seconds and column widths. "..." on
// the page matches anything, and as a separate line any lines.
func shows(want, got string) bool {
	return regexp.MustCompile(`^` + pattern(want) + `$`).MatchString(even(got))
}

func even(text string) string {
	text = varying.ReplaceAllString(strings.ReplaceAll(text, "\r", ""), "<instant>")
	return strings.TrimSpace(blanks.ReplaceAllString(lasting.ReplaceAllString(text, "<duration>"), " "))
}

func pattern(want string) string {
	p := regexp.QuoteMeta(even(want))
	p = regexp.MustCompile(`(?m)^\\\.\\\.\\\.$`).ReplaceAllString(p, `(?s:.*)`)
	return strings.ReplaceAll(p, `\.\.\.`, `.*`)
}

// readOnly checks a block that is not run: our commands and their flags must exist.
func readOnly(t testing.TB, where, code string) {
	t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(code, "\\\n", " ")) {
		line, _, _ = strings.Cut(strings.TrimPrefix(line, "$ "), " #")
		for _, part := range regexp.MustCompile(`[|;&]+`).Split(line, -1) {
			if part = strings.TrimSpace(part); ours.MatchString(part) {
				understood(t, where, part)
			}
		}
	}
}
