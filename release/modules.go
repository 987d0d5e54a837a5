package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// licensesName is the file with the licenses of all modules that the programs contain.
const licensesName = "THIRD_PARTY_LICENSES.txt"

// licenseFile matches the names of files that must go along with a binary.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)([.-].*)?$`)

// standardLibrary is the name of the module of Go's own packages.
const standardLibrary = "std"

// module is a module that at least one program contains.
type module struct {
	path, version, sum string
	licenses           []string // SPDX identifiers; empty if unclear
	texts              []file   // its license files
}

// contents are the modules of a program, by path. Go records them in each binary.
func contents(path string) (map[string]module, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	all := map[string]module{
		standardLibrary: {path: standardLibrary, version: strings.TrimPrefix(info.GoVersion, "go")},
	}
	for _, d := range info.Deps {
		if d.Replace != nil {
			return nil, fmt.Errorf("%s: contains %s, which go.mod replaces; a release needs published modules", path, d.Path)
		}
		all[d.Path] = module{path: d.Path, version: d.Version, sum: d.Sum}
	}
	return all, nil
}

// licensedModules returns the modules of all binaries with their licenses, sorted by path.
func (o options) licensedModules(ctx context.Context, sources string, binaries []binary) ([]module, error) {
	union := map[string]module{}
	for _, b := range binaries {
		modules, err := contents(b.path)
		if err != nil {
			return nil, err
		}
		maps.Copy(union, modules)
	}
	dirs, err := moduleDirs(ctx, sources, union)
	if err != nil {
		return nil, err
	}
	var all []module
	for _, path := range slices.Sorted(maps.Keys(union)) {
		m := union[path]
		if m.texts, err = licenseTexts(dirs[path]); err != nil {
			return nil, fmt.Errorf("module %s %s: %w", m.path, m.version, err)
		}
		m.licenses = identify(m.texts)
		all = append(all, m)
	}
	return all, nil
}

// moduleDirs returns the folders of modules in the module cache.
func moduleDirs(ctx context.Context, sources string, modules map[string]module) (map[string]string, error) {
	root, err := output(ctx, sources, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{standardLibrary: strings.TrimSpace(string(root))}
	args := []string{"mod", "download", "-json"}
	for path, m := range modules {
		if path != standardLibrary {
			args = append(args, path+"@"+m.version)
		}
	}
	out, err := output(ctx, sources, nil, "go", args...)
	if err != nil {
		return nil, err
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Dir string }
		switch err := decoder.Decode(&m); {
		case errors.Is(err, io.EOF):
			return dirs, nil
		case err != nil:
			return nil, fmt.Errorf("go mod download -json: %w", err)
		}
		dirs[m.Path] = m.Dir
	}
}

// licenseTexts returns the license files of a module. Every module must have one, or its use is not permitted.
func licenseTexts(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []file
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenseFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, file{name: e.Name(), content: content})
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s has no license file; a binary must not contain it", dir)
	}
	return texts, nil
}

// licenseProper matches the license files that name a license; notices and patent grants do not.
var licenseProper = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)

// identify returns the SPDX identifiers of license texts.
func identify(texts []file) []string {
	found := map[string]bool{}
	for _, t := range texts {
		if !licenseProper.MatchString(t.name) {
			continue
		}
		for _, m := range licensecheck.Scan(t.content).Match {
			if !m.IsURL {
				found[m.ID] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// licensesText returns the license files of all modules as one text.
func licensesText(modules []module) []byte {
	var b bytes.Buffer
	b.WriteString("The programs of Penstock contain these modules.\n")
	for _, m := range modules {
		for _, t := range m.texts {
			_, _ = fmt.Fprintf(&b, "\n%s\n%s %s: %s\n%s\n\n%s\n", strings.Repeat("=", 80), m.path, m.version, t.name,
				strings.Repeat("=", 80), bytes.TrimRight(t.content, "\n"))
		}
	}
	return b.Bytes()
}
