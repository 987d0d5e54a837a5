package test

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

//go:generate go test -run ^(TestCopiesAreCurrent|TestManifestsAreCurrent)$ . -args -update

var update = flag.Bool("update", false, "write the chart's copies of alerts and dashboards, and the plain manifests")

const (
	chartDir  = "../penstock"
	deployDir = "../.."
	namespace = "queues"
)

// release is what Helm would install with some values.
type release struct {
	values  string // their text
	objects []object
}

// object is one rendered object.
type object struct {
	kind, name string
	hook       string // value of the annotation helm.sh/hook
	text       string
	typed      any
}

func (o *object) String() string { return o.kind + " " + o.name }

var loadChart = sync.OnceValues(func() (*chart.Chart, error) { return loader.LoadDir(chartDir) })

// valuesFiles returns the names of the files in values/.
func valuesFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("values/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 12 {
		t.Fatalf("values/ has %d files, want at least 12", len(files))
	}
	return files
}

// valuesOf reads a file of values.
func valuesOf(t *testing.T, file string) (values map[string]any, text string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(b, &values); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return values, string(b)
}

// template renders the chart, as helm template does, and returns the text of each file.
func template(values map[string]any, name string) (map[string]string, error) {
	return templateIn(namespace, values, name)
}

func templateIn(namespace string, values map[string]any, name string) (map[string]string, error) {
	c, err := loadChart()
	if err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{
		Name: name, Namespace: namespace, Revision: 1, IsInstall: true,
	}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// install renders and decodes a file of values.
func install(t *testing.T, file string) *release {
	t.Helper()
	values, text := valuesOf(t, file)
	return installValues(t, file, text, values)
}

func installValues(t *testing.T, file, text string, values map[string]any) *release {
	t.Helper()
	files, err := template(values, "penstock")
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	r, err := read(text, documents(files))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return r
}

// read decodes documents.
func read(values string, docs []string) (*release, error) {
	r := &release{values: values}
	for _, doc := range docs {
		o, err := decode(doc)
		if err != nil {
			return nil, fmt.Errorf("%w\n%s", err, doc)
		}
		r.objects = append(r.objects, o)
	}
	return r, nil
}

var (
	separator = regexp.MustCompile(`(?m)^---\s*$`)
	comment   = regexp.MustCompile(`(?m)^\s*#.*$`)
)

// documents returns the YAML documents of rendered files that are not empty, in the order of the files.
func documents(files map[string]string) (docs []string) {
	names := make([]string, 0, len(files))
	for name := range files {
		if path.Ext(name) == ".yaml" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, doc := range separator.Split(files[name], -1) {
			if strings.TrimSpace(comment.ReplaceAllString(doc, "")) != "" {
				docs = append(docs, strings.Trim(doc, "\n")+"\n")
			}
		}
	}
	return docs
}

// find returns the only object with that kind and name.
func (r *release) find(t *testing.T, kind, name string) *object {
	t.Helper()
	for i := range r.objects {
		if r.objects[i].kind == kind && r.objects[i].name == name {
			return &r.objects[i]
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// of returns the objects of a type.
func of[T any](r *release) (all []T) {
	for i := range r.objects {
		if typed, is := r.objects[i].typed.(T); is {
			all = append(all, typed)
		}
	}
	return all
}

// faults are what a check found.
type faults []string

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }
