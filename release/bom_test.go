package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// bomSchema compiles the official schema, which comes with the module that writes the SBOMs.
func bomSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir := strings.TrimSpace(tool(t, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go"))
	compiler := jsonschema.NewCompiler()
	for _, name := range []string{"bom-1.6.schema.json", "spdx.schema.json", "jsf-0.82.schema.json"} {
		path := filepath.Join(dir, "schema", name)
		if _, err := os.Stat(path); err != nil {
			path = filepath.Join(dir, "schema", "jsf-0.82.schemax.json") // the module misspells its name
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource("http://cyclonedx.org/schema/"+name, document); err != nil {
			t.Fatal(err)
		}
	}
	compiler.AssertFormat()
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestBoms(t *testing.T) {
	f := release(t)
	schema := bomSchema(t)
	for _, p := range programs {
		name := p.name + "_9.8.7.cdx.json"
		text, err := os.ReadFile(f.file(t, name))
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		bom := &cyclonedx.BOM{}
		if err := json.Unmarshal(text, bom); err != nil {
			t.Fatal(err)
		}
		named := map[string]cyclonedx.Component{}
		for _, c := range *bom.Components {
			named[c.Name] = c
		}
		if std := named["std"]; std.Version != strings.TrimPrefix(runtime.Version(), "go") {
			t.Errorf("%s has Go %q, want %s", name, std.Version, runtime.Version())
		}
		if p.imageOnly {
			continue
		}
		if c := named["github.com/alecthomas/kong"]; c.Version == "" || c.Licenses == nil ||
			(*c.Licenses)[0].License.ID != "MIT" || c.PackageURL != "pkg:golang/github.com/alecthomas/kong@"+c.Version {
			t.Errorf("%s has kong as %+v", name, c)
		}
		describesBinaries(t, f, p, bom)
	}
}

// describesBinaries checks that the SBOM names each binary with its hash and all its modules.
func describesBinaries(t *testing.T, f fixture, p program, bom *cyclonedx.BOM) {
	t.Helper()
	binaries := map[string]string{}
	for _, c := range *bom.Metadata.Component.Components {
		binaries[c.Name] = (*c.Hashes)[0].Value
	}
	for _, pl := range f.options.platforms {
		name := pl.os + "_" + pl.arch + "/" + p.name + pl.suffix()
		path := f.file(t, "bin/"+name)
		sum, err := sha256File(path)
		if err != nil || binaries[name] != sum {
			t.Errorf("%s has the hash %s in the SBOM, want %s (%v)", name, binaries[name], sum, err)
		}
		modules, err := contents(path)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(*bom.Dependencies, func(d cyclonedx.Dependency) bool { return d.Ref == name })
		if at < 0 || len(*(*bom.Dependencies)[at].Dependencies) != len(modules) {
			t.Errorf("the SBOM of %s does not have its %d modules", name, len(modules))
		}
	}
}

// The schema refuses what is no SBOM, so TestBoms can fail.
func TestInvalidBoms(t *testing.T) {
	schema := bomSchema(t)
	for _, text := range []string{
		`{}`, `{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"name": "a"}]}`,
		`{"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": "7"}`,
		`{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"type": "library", "name": "a",
			"licenses": [{"license": {"id": "No-Such-License"}}]}]}`,
	} {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(document) == nil {
			t.Errorf("the schema accepts %s", text)
		}
	}
}
