package deploytest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.."

// files are deploy's, by their path in it, and the page about its alerts.
type files map[string]string

// faults are what a check has to say against them.
type faults []string

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// check looks at files and never changes them. It stops the test only when it cannot look.
type check func(*testing.T, files) faults

var checks = map[string]check{
	"compose":    composeFaults,
	"services":   serviceFaults,
	"dockerfile": dockerFaults,
	"nats":       natsFaults,
	"units":      unitFaults,
	"systemd":    systemdFaults,
	"prometheus": prometheusFaults,
	"alerts":     alertFaults,
	"runbook":    runbookFaults,
	"recording":  recordingFaults,
	"grafana":    grafanaFaults,
	"provision":  provisioningFaults,
	"readme":     readmeFaults,
}

func TestFiles(t *testing.T) {
	deploy := load(t)
	for name, look := range checks {
		t.Run(name, func(t *testing.T) {
			for _, fault := range look(t, deploy) {
				t.Error(fault)
			}
		})
	}
}

func load(t *testing.T) files {
	t.Helper()
	deploy := files{runbook: read(t, "docs/runbook.md")}
	top := filepath.Join(root, "deploy")
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		deploy[filepath.ToSlash(name)] = read(t, filepath.Join("deploy", name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return deploy
}

// read returns a file of the repository.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// inDir are the files in a directory of deploy, with that ending.
func (f files) inDir(dir, ending string) []string {
	var names []string
	for name := range f {
		if strings.HasPrefix(name, dir+"/") && strings.HasSuffix(name, ending) {
			names = append(names, name)
		}
	}
	return names
}
