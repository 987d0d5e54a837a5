package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An ingress links nothing of what delivers to asynq, nor a server of NATS: these are for processes that have them.
func TestWhatIngressLinks(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/ingress")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(string(out)) {
		for _, none := range []string{
			"github.com/hibiken/asynq", "github.com/robfig/cron", "github.com/nats-io/nats-server",
		} {
			if strings.HasPrefix(pkg, none) {
				t.Errorf("it links %s", pkg)
			}
		}
	}
}

// Programs stay small. The command line's parser, kong, calls methods by names that the linker cannot know, so it keeps
// every method of every type: a third of each program. Traces take 4 MB of each: OpenTelemetry's SDK 1.1, and its
// exporter 2.8, by the stubs of gRPC behind the messages of OTLP.
func TestProgramsStaySmall(t *testing.T) {
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "./cmd/...")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, most := range map[string]int64{"ingress": 36_900_000, "drainer": 36_800_000, "penstock": 49_900_000} {
		file, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if file.Size() > most {
			t.Errorf("%s has %d bytes, at most are %d", name, file.Size(), most)
		}
	}
}
