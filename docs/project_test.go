package docs

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// Every tutorial is run: most of its commands are not only read.
func TestTutorialsAreRun(t *testing.T) {
	t.Parallel()
	tutorials := 0
	for _, name := range pages(t) {
		if path.Dir(name) != "docs/tutorials" {
			continue
		}
		tutorials++
		run, left := 0, 0
		for _, b := range read(t, name).blocks {
			if b.lang != "sh" && b.lang != "console" {
				t.Errorf("%s has a block of %s, which is not run", name, b.lang)
			}
			if b.notRun == "" {
				run += len(commands(b))
			} else {
				left += len(commands(b))
			}
		}
		if left > 1 || run < 10 {
			t.Errorf("%s has %d lines of commands that are run, and %d that are not", name, run, left)
		}
	}
	if tutorials < 6 {
		t.Errorf("there are %d tutorials, want at least 6", tutorials)
	}
}

// ecosystem returns the dependabot ecosystem that updates a file, or an empty string.
func ecosystem(file string) string {
	switch path.Base(file) {
	case "go.mod":
		return "gomod"
	case "package.json":
		return "npm"
	case "pyproject.toml":
		return "pip"
	case "Dockerfile":
		return "docker"
	case "compose.yaml":
		return "docker-compose"
	}
	return ""
}

// dependabot.yml names exactly the directories with files that it can update.
func TestDependabotSeesEveryDependency(t *testing.T) {
	t.Parallel()
	want := map[string]bool{"github-actions /": true}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") ||
			slices.Contains([]string{"bin", "data", "dist", "node_modules", "testdata"}, d.Name())) {
			return fs.SkipDir
		}
		if e := ecosystem(filepath.ToSlash(name)); e != "" && !d.IsDir() {
			dir, err := filepath.Rel(root, filepath.Dir(name))
			want[e+" "+path.Join("/", filepath.ToSlash(dir))] = true
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Version int `yaml:"version"`
		Updates []struct {
			Ecosystem   string         `yaml:"package-ecosystem"`
			Directories []string       `yaml:"directories"`
			Schedule    map[string]any `yaml:"schedule"`
		} `yaml:"updates"`
	}
	readYAML(t, "dependabot.yml", &file)
	got := map[string]bool{}
	for _, u := range file.Updates {
		if u.Schedule["interval"] == nil {
			t.Errorf("dependabot.yml: %s has no interval", u.Ecosystem)
		}
		for _, dir := range u.Directories {
			got[u.Ecosystem+" "+dir] = true
		}
	}
	if !maps.Equal(got, want) || file.Version != 2 {
		t.Errorf("version %d of dependabot.yml names\n%q\nwant\n%q", file.Version,
			slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// Every issue form has what GitHub requires: a name, a description, and fields with distinct ids and labels.
func TestIssueForms(t *testing.T) {
	t.Parallel()
	forms, err := filepath.Glob(filepath.Join(root, ".github", "ISSUE_TEMPLATE", "*.yml"))
	if err != nil || len(forms) < 2 {
		t.Fatalf("%d forms: %v", len(forms), err)
	}
	for _, name := range forms {
		if filepath.Base(name) == "config.yml" {
			continue
		}
		var form struct {
			Name        string `yaml:"name"`
			Description string `yaml:"description"`
			Body        []struct {
				Type       string `yaml:"type"`
				ID         string `yaml:"id"`
				Attributes struct {
					Label   string `yaml:"label"`
					Value   string `yaml:"value"`
					Options []any  `yaml:"options"`
				} `yaml:"attributes"`
			} `yaml:"body"`
		}
		readYAML(t, filepath.Join("ISSUE_TEMPLATE", filepath.Base(name)), &form)
		ids := map[string]bool{}
		for _, field := range form.Body {
			a := &field.Attributes
			choice := field.Type == "dropdown" || field.Type == "checkboxes"
			switch {
			case field.Type == "markdown" && a.Value != "":
			case a.Label == "" || field.ID == "" || ids[field.ID] || choice != (len(a.Options) > 0):
				t.Errorf("%s: the field %q of type %s is not complete", name, field.ID, field.Type)
			}
			ids[field.ID] = true
		}
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s has no name, description or body", name)
		}
	}
}

// readYAML reads a file of .github.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".github", name))
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
