package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a command may cost, whatever is in its file: memory as the kernel counts it, and processor time, which does not
// depend on what else the machine does.
const (
	hostileMemory = 200 << 20
	hostileTime   = 10 * time.Second
)

// hostileFile is a file that is made to harm its reader.
type hostileFile struct {
	name string
	// args is the command, in which FILE stands for the file. It is given to the program as it is.
	args  string
	write func(w io.Writer)
	code  int
	// says is a part of what the program says of it.
	says string
}

const (
	apply  = "queue apply --diff -f FILE"
	replay = `replay --log FILE --rule meter\ rate=1/s`
	pushed = "push email -f FILE"
	verify = "import --store STORE --init -f FILE"
)

// many writes a text so often, by the block: with the race detector each call takes its time.
func many(text string, n int) func(io.Writer) {
	return func(w io.Writer) {
		per := max(1, mib/len(text))
		block := strings.Repeat(text, min(n, per))
		for ; n > per; n -= per {
			_, _ = io.WriteString(w, block)
		}
		_, _ = io.WriteString(w, block[:n*len(text)])
	}
}

// parts writes one thing after the other.
func parts(all ...func(io.Writer)) func(io.Writer) {
	return func(w io.Writer) {
		for _, write := range all {
			write(w)
		}
	}
}

func text(s string) func(io.Writer) { return many(s, 1) }

// zipped compresses.
func zipped(write func(io.Writer)) func(io.Writer) {
	return func(w io.Writer) {
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		write(z)
		_ = z.Close()
	}
}

const (
	mib      = 1 << 20
	logLine  = `192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-"` + "\n"
	jsonLine = `{"time":"2026-01-01T00:00:00Z"}` + "\n"
)

var hostileFiles = []hostileFile{
	{"yaml: brackets", apply, parts(text("queues: "), many("[", 80_000)), 2, "nested deeper than 64"},
	{"yaml: braces", apply, parts(text("queues: "), many("{", 80_000)), 2, "nested deeper than 64"},
	{"yaml: braces with keys", apply, parts(text("queues: "), many("{a: ", 50_000)), 2, "nested deeper than 64"},
	{"yaml: dashes", apply, parts(text("queues:\n"), many("- ", 200_000)), 2, "nested deeper than 64"},
	{"yaml: indentation", apply, func(w io.Writer) {
		for i := range 2500 {
			_, _ = fmt.Fprintf(w, "%*sa:\n", i, "")
		}
	}, 2, "nested deeper than 64"},
	{"yaml: question marks", apply, many("? ", 200_000), 2, "nested deeper than 64"},
	{"yaml: a long flow of keys", apply, parts(text("queues: {"), many("a,", 149_000), text("}")), 2, "must be a list"},
	{"yaml: empty items", apply, parts(text("queues:\n"), many("-\n", 149_000)), 2, "queues[0]"},
	{"yaml: more values than may be", apply, parts(text("queues: ["), many("a,", mib), text("]")), 2, "too large"},
	{"yaml: 64 MiB", apply, many("queues: []\n", 6*mib), 2, "too long"},
	{"yaml: without end", "queue apply --diff -f /dev/zero", nil, 2, "too long"},
	{"yaml: anchors", apply, parts(text("queues: "), many("&a ", mib)), 2, ""},
	{"yaml: tags", apply, parts(text("queues: "), many("!a ", mib)), 2, ""},
	{"yaml: a billion laughs", apply, func(w io.Writer) {
		_, _ = io.WriteString(w, "queues:\n- &a0 [lol]\n")
		for i := 1; i < 30; i++ {
			_, _ = fmt.Fprintf(w, "- &a%d [%s*a%d]\n", i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), i-1)
		}
	}, 2, "not supported"},
	{"yaml: an alias of itself", apply, text("queues: &a [*a]\n"), 2, ""},
	{"yaml: quotes", apply, parts(text("queues: "), many(`"`, 4*mib-100)), 2, ""},
	{"yaml: an escaped text", apply, parts(text(`queues: "`), many(`\u0041`, 600_000), text(`"`)), 2, "must be a list"},
	{"yaml: blank", apply, many("\n", 290_000), 2, "is empty"},
	{"yaml: documents", apply, many("---\nqueues: []\n", 20_000), 2, "second YAML document"},
	{"yaml: zeros", apply, many("\x00", 2*mib), 2, ""},
	{
		"yaml: a payload of brackets", apply,
		parts(text("queues:\n- {name: a, rate: 1/s, deliver: '"), many("[", 20_000), text("'}\n")), 2, "queues[0]",
	},
	{"yaml: as many queues as fit", apply, func(w io.Writer) {
		_, _ = io.WriteString(w, "queues:\n")
		for i := range 42_000 {
			_, _ = fmt.Fprintf(w, "- {name: q%d, rate: 1/s}\n", i)
		}
	}, 4, ""}, // it is fine, and there is no server
	{"rules: brackets", "rule apply -f FILE", parts(text("rules: "), many("[", 80_000)), 2, "nested deeper than 64"},
	{"rules of a replay: brackets", "replay --log /dev/null --rule FILE", many("[", 80_000), 2, "nested deeper than 64"},
	{"rules of a replay: without end", "replay --log /dev/null --rule /dev/zero", nil, 2, "too long"},

	{"log: no log", replay, many("a", 30*mib), 2, "does not identify the format"},
	{"log: one line of 30 MiB", replay, parts(text(logLine), many("a", 30*mib)), 0, ""},
	{"log: a zip bomb of one line", replay, zipped(parts(text(logLine), many("a", 100*mib))), 0, ""},
	{"log: a zip bomb of lines", replay, zipped(parts(text(logLine), many("\n", 30*mib))), 0, ""},
	{"log: a zip of zips", replay, zipped(zipped(many("a\n", mib))), 2, "binary"},
	{"log: a cut zip", replay, func(w io.Writer) {
		var all bytes.Buffer
		zipped(many(logLine, 10_000))(&all)
		_, _ = w.Write(all.Bytes()[:all.Len()/2])
	}, 2, ""},
	{
		"log: JSON nested deep", replay + " --format ndjson",
		parts(text(jsonLine), many(strings.Repeat(`{"a":`, 9990)+"1"+strings.Repeat("}", 9990)+"\n", 50)), 0, "",
	},
	{"log: 200,000 keys", replay + " --format ndjson --key {/k}", func(w io.Writer) {
		for i := range 200_000 {
			_, _ = fmt.Fprintf(w, `{"time":"2026-01-01T00:00:%02dZ","k":"%d"}`+"\n", i/5000%60, i)
		}
	}, 0, ""},
	{"log: CSV of one open quote", replay + " --format csv", parts(text("time,key\n\""), many("a\n", 10*mib)), 2, ""},
	{"log: CSV of commas", replay + " --format csv", many(",", 30*mib), 2, ""},

	{"jobs: one line of 30 MiB", pushed + " --format ndjson", many("a", 30*mib), 3, "longer than"},
	{
		"jobs: JSON nested deep", pushed + " --format ndjson",
		many(strings.Repeat(`{"a":`, 9990)+"1"+strings.Repeat("}", 9990)+"\n", 20), 3, "nested deeper than 64",
	},
	{"jobs: brackets", pushed + " --format ndjson", many("[", 8*mib), 3, "longer than"},
	{
		"jobs: CSV of one open quote", pushed + " --format csv", parts(text("id,payload\n\""), many("a\n", 10*mib)), 1,
		"is a quote missing?",
	},
	{"jobs: CSV of commas", pushed + " --format csv", many(",", 30*mib), 2, "is a quote missing?"},
	{"jobs: CSV of one name", pushed + " --format csv", parts(many("id,", 100_000), text("\n")), 2, "must be unique"},

	{"archive: one line of 30 MiB", verify, many("a", 30*mib), 2, "line 1"},
	{"archive: brackets", verify, parts(text(`{"penstock_export":`), many("[", 3*mib), text("\n")), 2, "line 1"},
	{
		"archive: many headers", verify, many(`{"penstock_export":{"format":1,"store":"x"}}`+"\n", 200_000), 2,
		"without a trailer",
	},
	{"archive: blank", verify, many("\n", 10*mib), 2, "line 1"},
	{"archive: without end", "import --store STORE --init -f /dev/zero", nil, 2, "line 1"},
}

// Reading a hostile file stays within the stated costs, and its error is short.
func TestHostileFiles(t *testing.T) {
	if n := len(hostileFiles); n < 40 {
		t.Errorf("%d files", n)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "penstock") // as it is shipped: the race detector would need many times the memory
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	build.Env = append(asStarted, "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, c := range hostileFiles {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(dir, fmt.Sprintf("hostile-%d", i))
			if c.write != nil {
				f, err := os.Create(file)
				if err != nil {
					t.Fatal(err)
				}
				w := bufio.NewWriterSize(f, mib)
				c.write(w)
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
				_ = f.Close()
				t.Cleanup(func() { _ = os.Remove(file) })
			}
			args := strings.NewReplacer("FILE", file, "STORE", filepath.Join(dir, fmt.Sprintf("store-%d", i))).Replace(c.args)
			args = strings.ReplaceAll(args, `\ `, "\x00")
			list := strings.Fields(args)
			for k := range list {
				list[k] = strings.ReplaceAll(list[k], "\x00", " ")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			costs := file + "-costs"
			cmd := exec.CommandContext(ctx, os.Args[0], append([]string{path}, list...)...)
			cmd.Env = append(os.Environ(), asMeter+"="+costs, "PENSTOCK_URL=http://127.0.0.1:1") // nothing listens there
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = io.Discard, &said
			err := cmd.Run()
			if cmd.ProcessState == nil {
				t.Fatal(err)
			}
			most, cpu := costOf(t, costs)
			t.Logf("%s: %d MiB, %v", c.name, most/mib, cpu)
			if most > hostileMemory || cpu > hostileTime {
				t.Errorf("it took %d MiB and %v", most/mib, cpu)
			}
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(said.String(), c.says) {
				t.Errorf("exit %d, want %d and %q: %.600s", code, c.code, c.says, said.String())
			}
			if said.Len() > 4<<10 {
				t.Errorf("it said %d bytes: %.600s", said.Len(), said.String())
			}
		})
	}
}

// asMeter has this test's binary run a command, and write into the file that it names what the command cost. The kernel
// counts what the parent of a process had in memory as the process's own: so a small one has to stand between.
const asMeter = "PENSTOCK_TEST_AS_METER"

func meter(out string, args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		fmt.Fprintln(os.Stderr, "the kernel does not tell what the command used")
		return 99
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if err := os.WriteFile(out, fmt.Appendf(nil, "%d %d", used.Maxrss<<10, cpu), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	return cmd.ProcessState.ExitCode()
}

// costOf is the memory that a command took at most, in bytes, and its processor time.
func costOf(t *testing.T, file string) (most int64, cpu time.Duration) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		_, err = fmt.Sscan(string(text), &most, (*int64)(&cpu))
	}
	if err != nil {
		t.Fatal(err)
	}
	return most, cpu
}
