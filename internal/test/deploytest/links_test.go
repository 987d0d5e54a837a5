package deploytest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// An ingress links nothing of what delivers to asynq, nor a server of NATS: these are for processes that have them. Nor
// gRPC, which nothing here speaks.
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
			"google.golang.org/grpc",
		} {
			if strings.HasPrefix(pkg, none) {
				t.Errorf("it links %s", pkg)
			}
		}
	}
}

// Programs stay small. The command line's parser, kong, calls methods by names that the linker cannot know, so it keeps
// every method of every type, and so does html/template: together they make a third of each program.
func TestProgramsStaySmall(t *testing.T) {
	for name, most := range map[string]int64{"ingress": 37_600_000, "drainer": 36_280_000, "penstock": 51_560_000} {
		file, err := os.Stat(tool(t, "cmd/"+name))
		if err != nil {
			t.Fatal(err)
		}
		if file.Size() > most {
			t.Errorf("%s has %d bytes, at most are %d", name, file.Size(), most)
		}
	}
}
