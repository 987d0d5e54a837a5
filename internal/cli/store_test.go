package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/test/keytest"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// storeOf makes an embedded store of n jobs in a queue q, and returns its directory.
func storeOf(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s, err := store.Open(t.Context(), store.Options{DataPath: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), queue.Spec{Name: "q", Rate: leaky.PerSecond(14)}, 0); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; {
		var list []queue.Job
		for ; i < n && len(list) < 500; i++ {
			list = append(list, queue.Job{Queue: "q", ID: fmt.Sprintf("j%05d", i), Payload: []byte(`{"n": 1.0}`)})
		}
		if out, err := s.Append(t.Context(), list); err != nil || out[0].Outcome != queue.Accepted {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func held(t *testing.T, o store.Options) int64 {
	t.Helper()
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	i, err := s.Get(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	return i.Size()
}

func TestExportAndImport(t *testing.T) {
	dir := storeOf(t, 1234)
	file := filepath.Join(t.TempDir(), "backup.ndjson")
	expect(
		t, ExitDone, "", "exported 0 rules, 1 queues, 1234 jobs: 1234 waiting", "export", "--store", dir, "--output", file,
	)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	server := redistest.New(t, redistest.Options{})
	expect(t, ExitFailed, "", "--init", "import", "--store", server.URL(), "-f", file)
	expect(
		t, ExitDone, "1234 placed, 0 already present", "verifying",
		"import", "--store", server.URL(), "--init", "--partitions",
		"4", "-f", file,
	)
	expect(t, ExitDone, "0 placed, 1234 already present", "", "import", "--store", server.URL(), "-f", file)
	expect(t, ExitDone, `"there_already": 1234`, "", "import", "--store", server.URL(), "-f", file, "-o", "json")
	expect(t, ExitDone, "done", "", "import", "--store", server.URL(), "-f", file, "--dry-run")
	if n := held(t, store.Options{RedisURL: server.URL(), Patience: redistest.Patience}); n != 1234 {
		t.Errorf("Redis holds %d", n)
	}

	// Through a pipe, which cannot be read twice, and without the number of partitions.
	r := expect(t, ExitDone, `"trailer"`, "", "export", "--store", server.URL())
	back := filepath.Join(t.TempDir(), "new")
	expect(t, ExitFailed, "", "no embedded store", "export", "--store", back)
	if r := penstock(t, r.out, "import", "--store", "file://"+back, "--init"); r.code != ExitDone ||
		!strings.Contains(r.out, "1234 placed") {
		t.Errorf("%+v", r)
	}
	if n := held(t, store.Options{DataPath: back}); n != 1234 {
		t.Errorf("the file holds %d", n)
	}

	if r := penstock(t, r.out[:len(r.out)/2], "import", "--store", back); r.code != ExitUsage ||
		!strings.Contains(r.err, "Nothing was changed") {
		t.Errorf("half a file: %+v", r)
	}
	other := storeOf(t, 1)
	expect(t, ExitRefused, "", "q holds 1 jobs", "import", "--store", other, "-f", file)
	expect(t, ExitRefused, "holds 1 jobs", "", "import", "--store", other, "-f", file, "--dry-run")
}

// Root may rename a file over /dev/null, so that every program on the machine writes to it from then on.
func TestADeviceSurvivesAnExport(t *testing.T) {
	link := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "", "1 waiting", "export", "--store", storeOf(t, 1), "--output", link)
	if info, err := os.Stat(link); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Fatalf("the device is one no more: %v, %v", info, err)
	}
}

func TestStoreInUse(t *testing.T) {
	dir := storeOf(t, 1)
	s, err := store.Open(t.Context(), store.Options{DataPath: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	expect(t, ExitFailed, "", "--store "+dir, "export", "--store", dir)
	expect(t, ExitFailed, "", "stop that one", "export", "--store", dir)
	expect(t, ExitUnreachable, "", "--store", "export", "--store", "redis://127.0.0.1:1")
	expect(t, ExitUsage, "", "--store", "export")
	expect(t, ExitUsage, "", "--output", "export", "--store", storeOf(t, 1), "--output", filepath.Join(dir, "no", "file"))
	expect(t, ExitUsage, "", "no such file", "import", "--store", dir, "-f", filepath.Join(dir, "nothing"))
	expect(t, ExitUsage, "", "--partitions -1", "import", "--store", dir, "--partitions=-1")
}

func TestInterruptedImport(t *testing.T) {
	dir := storeOf(t, 10)
	r := expect(t, ExitDone, "", "", "export", "--store", dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := penstockIn(
		ctx, r.out, "import", "--store", filepath.Join(t.TempDir(), "x"), "--init",
	); r.code != ExitInterrupted {
		t.Errorf("%+v", r)
	}
}

// With --verify an archive that is not signed, or was altered, changes nothing: not even a store is made.
func TestSignedExport(t *testing.T) {
	signing, public := keytest.Pair(t)
	_, other := keytest.Pair(t)
	dir, file, plain := storeOf(t, 7), filepath.Join(t.TempDir(), "signed"), filepath.Join(t.TempDir(), "unsigned")
	expect(t, ExitDone, "", "7 waiting", "export", "--store", dir, "--sign", signing, "--output", file)
	expect(t, ExitDone, "", "7 waiting", "export", "--store", dir, "--output", plain)
	to := filepath.Join(t.TempDir(), "new")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	altered := filepath.Join(t.TempDir(), "altered")
	if err := os.WriteFile(altered, bytes.Replace(text, []byte(`"q"`), []byte(`"p"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitUsage, "", "is not signed", "import", "--store", to, "--init", "--verify", public, "-f", plain)
	expect(t, ExitUsage, "", "but by another", "import", "--store", to, "--init", "--verify", other, "-f", file)
	expect(t, ExitUsage, "", "Nothing was changed", "import", "--store", to, "--init", "--verify", public, "-f", altered)
	expect(t, ExitUsage, "", "--verify: ", "import", "--store", to, "--init", "--verify", signing, "-f", file)
	expect(t, ExitUsage, "", "--sign: ", "export", "--store", dir, "--sign", public, "--output", file)
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Errorf("something was made: %v", err)
	}
	expect(t, ExitDone, "7 placed", "", "import", "--store", to, "--init", "--verify", public, "-f", file)
	expect(t, ExitDone, "7 already present", "", "import", "--store", to, "-f", file)
}

// check distinguishes a sound store, a damaged one, one in use and a missing one.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	expect(t, ExitUsage, "", "no embedded store (penstock.db)", "check", "--data", dir)
	engine, err := store.Open(t.Context(), store.Options{DataPath: dir})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, ExitFailed, "", "--data "+dir+": in use: stop penstock up, or check a copy", "check", "--data", dir)
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, store.FileName)
	expect(t, ExitDone, file+" is sound: ", "", "check", "--data", dir)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := os.Getpagesize() * 2; i < len(whole); i++ { // all but the meta pages
		whole[i] = 0
	}
	if err := os.WriteFile(file, whole, info.Mode()); err != nil {
		t.Fatal(err)
	}
	const damaged = "damaged; restore a backup (penstock check --data DIR checks the whole file): page "
	expect(t, ExitFailed, "", damaged, "check", "--data", dir)
	expect(t, ExitFailed, "", damaged, "up", "--data", dir, "--listen", "127.0.0.1:0")
	if err := os.WriteFile(file, []byte("notes of another program"), info.Mode()); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitFailed, "", "a file of another program", "check", "--data", dir)
}

// init creates a store once, shows it from then on, and refuses one with other settings. A second client that creates
// it at the same time does no harm.
func TestInit(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	at := "the store on " + server.Addr()
	expect(t, ExitUsage, "", "--redis", "init")
	expect(t, ExitUsage, "", "--redis", "init", "--redis", "mysql://localhost")
	expect(t, ExitUnreachable, "", "127.0.0.1:1", "init", "--redis", "redis://127.0.0.1:1")
	expect(t, ExitFailed, "", "must be from 1 to 4096", "init", "--redis", server.URL(), "--partitions=-1")
	expect(t, ExitFailed, "", "must be from 1 to 4096", "init", "--redis", server.URL(), "--partitions", "5000")
	expect(t, ExitFailed, "", "empty", "token", "init", "--redis", server.URL()) // nothing was made so far
	expect(t, ExitDone, at+" was created: 4 partitions", "--partitions 4", "init", "--redis", server.URL(),
		"--partitions", "4")
	for _, args := range [][]string{nil, {"--partitions", "4"}} {
		expect(t, ExitDone, at+" exists; nothing was changed: 4 partitions", "",
			append([]string{"init", "--redis", server.URL()}, args...)...)
	}
	expect(t, ExitFailed, "", "4 partitions, not 16", "init", "--redis", server.URL(), "--partitions", "16")

	other := redistest.New(t, redistest.Options{})
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { expect(t, ExitDone, "16 partitions", "", "init", "--redis", other.URL()) })
	}
	both.Wait()
	expect(t, ExitDone, "ps_", "operator", "token", "init", "--redis", other.URL())

	server.Client().Del(t.Context(), "ps{0}")
	expect(t, ExitFailed, "", "partitions", "init", "--redis", server.URL())
	expect(t, ExitFailed, "", "1 of 4 partitions are gone", "init", "--redis", server.URL(), "--partitions", "4")
}
