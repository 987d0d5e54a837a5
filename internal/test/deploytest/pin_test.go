package deploytest

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var digest = regexp.MustCompile(`@sha256:[0-9a-f]{64}`)

// make pin gives every image that is pulled the digest of its tag, again when that has moved, and changes nothing else.
func TestImagesCanBePinned(t *testing.T) {
	deploy := load(t)
	dir := t.TempDir()
	for _, folder := range []string{"scripts", "deploy", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "scripts", "pin.sh"), read(t, "scripts/pin.sh"))
	write(t, filepath.Join(dir, "deploy", "compose.yaml"), deploy["compose.yaml"])
	write(t, filepath.Join(dir, "deploy", "Dockerfile"), deploy["Dockerfile"])
	docker := filepath.Join(dir, "bin", "docker")
	// A digest of the tag and of the day.
	write(t, docker, "#!/bin/sh\nfor last; do :; done\n"+
		`[ "$1 $2 $3" = "buildx imagetools inspect" ] && `+
		`printf '%s %s' "$last" "$DAY" | sha256sum | sed 's/^/sha256:/; s/ .*//'`+"\n")
	if err := os.Chmod(docker, 0o700); err != nil {
		t.Fatal(err)
	}
	pin := func(day string, args ...string) (string, error) {
		run := exec.CommandContext(t.Context(), "bash", append([]string{filepath.Join(dir, "scripts", "pin.sh")}, args...)...)
		run.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "DAY="+day)
		said, err := run.CombinedOutput()
		return string(said), err
	}
	files := func() (compose, dockerfile string) {
		read := func(name string) string {
			b, err := os.ReadFile(filepath.Join(dir, "deploy", name))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		return read("compose.yaml"), read("Dockerfile")
	}
	first := ""
	for _, day := range []string{"monday", "tuesday"} {
		if said, err := pin(day); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		compose, dockerfile := files()
		if compose == first {
			t.Error("a tag that has moved keeps its digest")
		}
		first = compose
		if said, err := pin(day, "--check"); err != nil {
			t.Errorf("%v: %s", err, said)
		}
		if n := strings.Count(compose+dockerfile, "@sha256:"); n != 5 {
			t.Errorf("%d images are pinned, want redis, nats, prometheus, grafana and golang", n)
		}
		pinned := maps.Clone(deploy)
		pinned["compose.yaml"], pinned["Dockerfile"] = compose, dockerfile
		for _, fault := range slices.Concat(composeFaults(t, pinned), serviceFaults(t, pinned), dockerFaults(t, pinned)) {
			t.Error(fault)
		}
		if got := digest.ReplaceAllString(compose+dockerfile, ""); got != digest.ReplaceAllString(
			deploy["compose.yaml"]+deploy["Dockerfile"], "",
		) {
			t.Errorf("more was changed than digests: %s", got)
		}
	}
	write(t, filepath.Join(dir, "deploy", "Dockerfile"), digest.ReplaceAllString(deploy["Dockerfile"], ""))
	said, err := pin("", "--check")
	if err == nil || !strings.Contains(said, "golang:") || strings.Contains(said, "redis:") {
		t.Errorf("an image without a digest: %v %s", err, said)
	}
}
