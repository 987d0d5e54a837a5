package archive_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
)

const killedStore, killedFile = "PENSTOCK_TEST_KILLED_STORE", "PENSTOCK_TEST_KILLED_FILE"

// TestKilledChild is the process of TestKilled: it imports half of a file and kills itself.
func TestKilledChild(t *testing.T) {
	if os.Getenv(killedStore) == "" {
		return
	}
	f, err := os.Open(os.Getenv(killedFile))
	if err != nil {
		t.Fatal(err)
	}
	file, err := archive.Verify(t.Context(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.OpenNamed(t.Context(), os.Getenv(killedStore), store.Options{
		Init: true, Flag: "--store", Patience: redistest.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Import(t.Context(), s.Engine.(archive.Store), archive.ImportOptions{Progress: func(n int64) {
		if n > file.Trailer.Jobs.Sum()/2 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}})
	t.Fatalf("it was not killed: %v", err)
}

func TestKilled(t *testing.T) {
	source, clock := newStore(t)
	// otherwise the engines would forget remembered jobs by their own
	clock.Set(leaky.Instant(time.Now().Add(-time.Minute).UnixMicro()))
	busyStore(t, source, clock, 4000)
	clock.Advance(time.Minute)
	file, exported := export(t, source, archive.ExportOptions{})
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, where := range map[string]string{
		"redis":    redistest.New(t, redistest.Options{AppendFsync: "always"}).URL(),
		"embedded": filepath.Join(t.TempDir(), "store"),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKilledChild$")
		child.Env = append(os.Environ(), killedStore+"="+where, killedFile+"="+path)
		out, err := child.CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		s, err := store.OpenNamed(t.Context(), where, store.Options{Flag: "--store", Patience: redistest.Patience})
		if err != nil {
			t.Fatal(err)
		}
		target := s.Engine.(engine)
		n := importInto(t, target, file)
		if n.Placed == 0 || n.There < exported.Jobs.Sum()/2 || n.Placed+n.There != exported.Jobs.Sum() {
			t.Errorf("%s: %+v of %+v", name, n, exported)
		}
		again, _ := export(t, target, archive.ExportOptions{})
		same(t, name, essence(again), essence(file))
		balanced(t, target)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
