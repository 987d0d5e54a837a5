package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// What bash sets for the function that completes, as if TAB was pressed behind $1. The
// last word is what stands behind the last of the characters at which bash takes words apart.
const pressTab = `
set -eu
source <(penstock completion bash)
[[ $(complete -p penstock) == *"-F _penstock penstock" ]]
COMP_LINE=$1 COMP_POINT=${#1}
word=${1##*[ =:]}
_penstock "${1%% *}" "$word" ""
printf '%s\n' "${COMPREPLY[@]+"${COMPREPLY[@]}"}" | LC_ALL=C sort`

func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	engine, err := boltq.Open(t.Context(), filepath.Join(dir, "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	for _, name := range []string{"email", "email.bulk", "sms"} {
		if _, err := engine.Put(
			t.Context(), queue.Spec{Name: name, Rate: leaky.PerSecond(1)}, queue.AnyRevision,
		); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(api.New(engine, api.Options{}))
	defer server.Close()

	itself, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	for _, made := range []error{
		os.Symlink(itself, filepath.Join(dir, "penstock")),
		os.Mkdir(work, 0o700),
		os.WriteFile(filepath.Join(work, "jobs of today.csv"), nil, 0o600),
		os.WriteFile(filepath.Join(work, "joy.csv"), nil, 0o600),
	} {
		if made != nil {
			t.Fatal(made)
		}
	}
	for line, want := range map[string]string{
		"penstock qu":                               "queue",
		"penstock queue res":                        "resume",
		"penstock queue info ":                      "email|email.bulk|sms",
		"penstock queue info e":                     "email|email.bulk",
		dir + "/penstock queue info s":              "sms",
		"penstock queue info --o":                   "--output",
		"penstock queue info -o=":                   "",
		"penstock queue info --output=":             "json|table",
		"penstock queue info --output=j":            "json",
		"penstock -s http://127.0.0.1:1 job get e":  "",
		"penstock -s " + server.URL + " job get sm": "sms",
		"penstock push -f jo":                       "jobs of today.csv|joy.csv",
		"penstock push --file=joy":                  "joy.csv",
		"penstock nonsense --what dem":              "demo",
	} {
		cmd := exec.CommandContext(t.Context(), "bash", "--norc", "-c", pressTab, "bash", line)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), asMain+"=1", "PATH="+dir+":"+os.Getenv("PATH"), "PENSTOCK_URL="+server.URL)
		out, err := cmd.CombinedOutput()
		if got := strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", "|"); err != nil || got != want {
			t.Errorf("%s: %v, %q, want %q", line, err, got, want)
		}
	}
}
