package cli

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/cli/doctor"
	"github.com/penstock/penstock/internal/cli/operator"
	"github.com/penstock/penstock/internal/test/await"
)

// An embedded store is looked at whether penstock up runs on it or not, and its files with it.
func TestDoctorData(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir()) // no other test has kept a login there
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	found := examined(t, "--data", dir)
	if do := finds(t, found, "store", doctor.Wrong, "no embedded store"); do != "penstock up --data "+dir {
		t.Errorf("what to do: %s", do)
	}
	finds(t, found, "disk", doctor.OK, "is free on the disk")
	finds(t, found, "files", doctor.OK, "1 file")
	engine, err := store.Open(t.Context(), store.Options{DataPath: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, store.FileName)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	finds(t, examined(t, "--data", dir), "store", doctor.OK, "")
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file was changed: %v", err)
	}
	token := filepath.Join(dir, operator.TokenFile)
	if err := os.WriteFile(token, []byte("psk_x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if do := finds(t, examined(t, "--data", dir), "files", doctor.Wrong, "has mode 0644"); do != "chmod 600 "+token {
		t.Errorf("what to do: %s", do)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if do := finds(t, examined(t, "--data", dir), "files", doctor.Wrong, "others can write to"); do != "chmod 700 "+dir {
		t.Errorf("what to do: %s", do)
	}
}

// Beside penstock up, targets may be where it says.
func TestDoctorUsesTheEgressOfUp(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	here := httptest.NewServer(http.NotFoundHandler())
	defer here.Close()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	go func() {
		ended <- penstockIn(ctx, "", "up", "--data", dir, "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.1")
	}()
	defer func() {
		cancel()
		<-ended
	}()
	await.Until(t, "it runs", func() bool { return answers(filepath.Join(dir, operator.SocketFile)) })
	url := "unix://" + filepath.Join(dir, operator.SocketFile)
	expect(t, ExitDone, "", "", "queue", "set", "-s", url, "good", "rate=10/s", "deliver.http.url="+here.URL)
	for _, from := range [][]string{{"--data", dir}, {"-s", url}} {
		finds(t, examined(t, from...), "targets", doctor.OK, "1 host reachable")
		allowing := append(from, "--egress-allow", "10.0.0.0/8")
		finds(t, examined(t, allowing...), "targets", doctor.Wrong, "good: deliver.http.url")
	}
}

// While penstock up runs on it, that is asked.
func TestDoctorDataOfUp(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	go func() { ended <- penstockIn(ctx, "", "up", "--data", dir, "--listen", "127.0.0.1:0") }()
	defer func() {
		stop()
		if r := <-ended; r.code != ExitDone && r.code != ExitInterrupted {
			t.Errorf("up: %+v", r)
		}
	}()
	await.Until(t, "up answers", func() bool { return answers(filepath.Join(dir, operator.SocketFile)) })
	var found []doctor.Finding
	await.Until(t, "its drainer asks for jobs", func() bool {
		found = examined(t, "--data", dir)
		return slices.ContainsFunc(found, func(f doctor.Finding) bool {
			return f.Check == "drainers" && f.Verdict == doctor.OK
		})
	})
	finds(t, found, "store", doctor.OK, "takes jobs")
	finds(t, found, "clock", doctor.OK, "1 other clock")
	without(t, found, "files", doctor.Wrong)
	t.Chdir(filepath.Dir(dir))
	finds(t, examined(t, "--data", filepath.Base(dir)), "store", doctor.OK, "takes jobs")
}

// answers reports whether a process listens at a socket.
func answers(path string) bool {
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
