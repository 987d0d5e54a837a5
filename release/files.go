package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/penstock/penstock/internal/cli"
)

// file is a file of an archive, a package or an image. A name that ends with a slash is a folder.
type file struct {
	name    string
	mode    fs.FileMode
	content []byte
	owner   int // user and group; only images have files of other owners than root
}

// shared are the files that do not depend on the platform. Their names have no folders.
type shared struct {
	texts       []file // license, licenses of others, README, CHANGELOG
	manual      []file // penstock.1 and others
	completions []file
	units       []file // as they are in deploy/systemd
	settings    []file // penstock.env and drop-ins for units
	zones       []byte // time zones, for images
}

// sharedFiles reads the shared files from the sources, or generates them.
func (o options) sharedFiles(ctx context.Context, sources string, modules []module) (s shared, err error) {
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		content, err := os.ReadFile(filepath.Join(sources, name))
		if err != nil {
			return shared{}, err
		}
		s.texts = append(s.texts, file{name: name, mode: 0o644, content: content})
	}
	s.texts = append(s.texts, file{name: licensesName, mode: 0o644, content: licensesText(modules)})
	if s.units, s.settings, err = systemdFiles(sources); err != nil {
		return shared{}, err
	}
	if s.completions, err = completionFiles(); err != nil {
		return shared{}, err
	}
	if s.zones, err = zoneInfo(ctx, sources); err != nil {
		return shared{}, err
	}
	s.manual, err = o.manualPages()
	return s, err
}

// systemdFiles returns the units and their settings.
func systemdFiles(sources string) (units, settings []file, err error) {
	entries, err := os.ReadDir(filepath.Join(sources, "deploy", "systemd"))
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(sources, "deploy", "systemd", e.Name()))
		if err != nil {
			return nil, nil, err
		}
		f := file{name: e.Name(), mode: 0o644, content: content}
		if strings.HasSuffix(f.name, ".service") {
			units = append(units, f)
		} else {
			settings = append(settings, f)
		}
	}
	return units, settings, nil
}

// completionFiles returns the completion scripts. Each has the name that its shell expects.
func completionFiles() ([]file, error) {
	var all []file
	for _, s := range []struct{ shell, name string }{
		{"bash", "penstock.bash"}, {"zsh", "_penstock"}, {"fish", "penstock.fish"},
	} {
		var out, stderr bytes.Buffer
		streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &stderr}
		if code := cli.Run(context.Background(), []string{"completion", s.shell}, streams); code != cli.ExitDone {
			return nil, fmt.Errorf("penstock completion %s: exit code %d: %s", s.shell, code, stderr.Bytes())
		}
		all = append(all, file{name: s.name, mode: 0o644, content: out.Bytes()})
	}
	return all, nil
}

// in returns files in a folder.
func in(dir string, files []file) []file {
	moved := make([]file, 0, len(files))
	for _, f := range files {
		f.name = dir + f.name
		moved = append(moved, f)
	}
	return moved
}

// programFiles reads the programs of a platform.
func programFiles(binaries []binary, p platform, wanted func(program) bool) ([]file, error) {
	var all []file
	for _, b := range binaries {
		if b.platform != p || !wanted(b.program) {
			continue
		}
		content, err := os.ReadFile(b.path)
		if err != nil {
			return nil, err
		}
		all = append(all, file{name: filepath.Base(b.path), mode: 0o755, content: content})
	}
	return all, nil
}

// forHosts reports whether archives and packages have the program.
func forHosts(p program) bool { return !p.imageOnly }
