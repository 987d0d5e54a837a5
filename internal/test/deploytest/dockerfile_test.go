package deploytest

import (
	gobuild "go/build"
	"go/version"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// stage is one of the Dockerfile, as the builder reads it.
type stage struct {
	Name, Base string
	Commands   []command
}

type command struct {
	Name, Text string
	Shell      bool // it is run by one
}

func (s *stage) last(command string) string {
	text := ""
	for _, c := range s.Commands {
		if c.Name == command {
			text = c.Text
		}
	}
	return text
}

var (
	notRoot    = regexp.MustCompile(`^[1-9]\d*(:[1-9]\d*)?$`)
	secretive  = regexp.MustCompile(`(?i)secret|passw|token|credential|private|_key\b`)
	goImage    = regexp.MustCompile(`^golang:(\d+\.\d+\.\d+)-`)
	makesBuild = regexp.MustCompile(`(?m)^\tCGO_ENABLED=0 \$\(GO\) build (.*) -ldflags '\$\(LDFLAGS\)' -o bin/ (.*)$`)
	makesFlags = regexp.MustCompile(`(?m)^LDFLAGS := (.*)\$\(VERSION\)$`)
	goLine     = regexp.MustCompile(`(?m)^go (\S+)$`)
)

func dockerFaults(t *testing.T, deploy files) (found faults) {
	var stages []stage
	if err := readAs(t, deploy["Dockerfile"], &stages, "dockerfile"); err != nil {
		found.add("Dockerfile: %v", err)
		return found
	}
	for _, s := range stages {
		if s.Base != "scratch" && !versioned.MatchString(s.Base) {
			found.add("%s is not pinned to a version", s.Base)
		}
		if m := goImage.FindStringSubmatch(s.Base); m != nil {
			if least := goLine.FindStringSubmatch(read(t, "go.mod"))[1]; version.Compare("go"+m[1], "go"+least) < 0 {
				found.add("%s is older than go.mod's go %s", s.Base, least)
			}
		}
		for _, c := range s.Commands {
			if (c.Name == "ARG" || c.Name == "ENV") && secretive.MatchString(c.Text) {
				found.add("%s %s: a secret in an image is everybody's", c.Name, c.Text)
			}
			if c.Name == "ADD" {
				found.add("ADD %s: what it does depends on what it is given; COPY does not", c.Text)
			}
		}
	}
	image := &stages[len(stages)-1]
	if image.Base != "scratch" {
		found.add("the image begins with %s, want scratch", image.Base)
	}
	if user := image.last("USER"); !notRoot.MatchString(user) {
		found.add("it ends as user %q, want the number of one who is not root", user)
	}
	for _, c := range image.Commands {
		if c.Name != "RUN" && c.Shell {
			found.add("%s %s needs a shell, and there is none", c.Name, c.Text)
		}
	}
	found = append(found, buildFaults(t, &stages[0])...)
	if ignored := deploy["Dockerfile.dockerignore"]; !strings.Contains(ignored, "\n.git\n") ||
		!strings.Contains(ignored, "\ndata\n") {
		found.add("Dockerfile.dockerignore lets .git or data into the build")
	}
	return found
}

// buildFaults compares what the build runs with what make build does.
func buildFaults(t *testing.T, build *stage) (found faults) {
	makefile := read(t, "Makefile")
	made, flags := makesBuild.FindStringSubmatch(makefile), makesFlags.FindStringSubmatch(makefile)
	if made == nil || flags == nil {
		t.Fatal("the Makefile's build does not look as this test expects")
	}
	at := slices.IndexFunc(build.Commands, func(c command) bool {
		return c.Name == "RUN" && strings.Contains(c.Text, "go build")
	})
	if at < 0 {
		found.add("nothing is built in the first stage")
		return found
	}
	line := build.Commands[at].Text
	for _, want := range []string{"CGO_ENABLED=0 ", " " + made[1] + " ", `-ldflags "` + flags[1] + `$VERSION"`} {
		if !strings.Contains(line, want) {
			found.add("the build does without %s, which the Makefile has", want)
		}
	}
	var packages []string
	for _, word := range strings.Fields(line) {
		if strings.HasPrefix(word, "./") {
			packages = append(packages, word)
		}
	}
	for _, want := range strings.Fields(made[2]) {
		if !slices.Contains(packages, want) {
			found.add("%s is not built", want)
		}
	}
	for _, dir := range packages {
		p, err := gobuild.ImportDir(filepath.Join(root, dir), 0)
		if err != nil || p.Name != "main" {
			found.add("%s is no program: %v", dir, err)
		}
	}
	return found
}
