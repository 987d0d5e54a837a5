package main

import (
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// home is where the project lives, and the path of the main module behind https://.
const home = "github.com/penstock/penstock"

// writeBoms writes a CycloneDX SBOM per program. It lists the binary of each platform with its hash, the modules in
// them, and which binary contains which module, as Go recorded it.
func (o options) writeBoms(dir string, binaries []binary, modules []module) error {
	for _, p := range o.programs {
		start := time.Now()
		var own []binary
		for _, b := range binaries {
			if b.program == p {
				own = append(own, b)
			}
		}
		if len(own) == 0 {
			continue
		}
		bom, err := o.bom(p, own, modules)
		if err != nil {
			return err
		}
		name := p.name + "_" + o.number() + ".cdx.json"
		if _, err := create(filepath.Join(dir, name), func(w io.Writer) error {
			encoder := cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true)
			return encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_6)
		}); err != nil {
			return err
		}
		o.report(start, "%s, %d modules", name, len(*bom.Components))
	}
	return nil
}

// bom returns the SBOM of a program.
func (o options) bom(p program, own []binary, modules []module) (*cyclonedx.BOM, error) {
	root := "pkg:golang/" + home + "@" + o.version + "#" + strings.TrimPrefix(p.dir, "./")
	known := map[string]string{} // references by path
	for _, m := range modules {
		known[m.path] = m.reference()
	}
	used := map[string]bool{}
	var platforms []cyclonedx.Component
	var names []string
	dependencies := []cyclonedx.Dependency{}
	for _, b := range own {
		found, err := contents(b.path)
		if err != nil {
			return nil, err
		}
		sum, err := sha256File(b.path)
		if err != nil {
			return nil, err
		}
		name := filepath.ToSlash(filepath.Join(b.platform.os+"_"+b.platform.arch, filepath.Base(b.path)))
		platforms = append(platforms, cyclonedx.Component{
			BOMRef: name, Type: cyclonedx.ComponentTypeFile, Name: name, Version: o.version,
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}},
		})
		names = append(names, name)
		var needs []string
		for _, path := range slices.Sorted(maps.Keys(found)) {
			needs, used[path] = append(needs, known[path]), true
		}
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: name, Dependencies: &needs})
	}
	var components []cyclonedx.Component
	for _, m := range modules {
		if used[m.path] {
			components = append(components, m.component())
		}
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceURL, []byte(root+"\x00"+o.commit.id)).String()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: o.commit.time.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: root, Type: cyclonedx.ComponentTypeApplication, Name: p.name, Version: o.version,
			Description: p.about, PackageURL: root, Licenses: spdx([]string{"Apache-2.0"}), Components: &platforms,
			ExternalReferences: &[]cyclonedx.ExternalReference{
				{Type: cyclonedx.ERTypeVCS, URL: "https://" + home, Comment: "commit " + o.commit.id},
			},
		},
	}
	bom.Components = &components
	dependencies = append([]cyclonedx.Dependency{{Ref: root, Dependencies: &names}}, dependencies...)
	bom.Dependencies = &dependencies
	return bom, nil
}

// reference returns the package URL of the module, which also identifies it in an SBOM.
func (m module) reference() string {
	return "pkg:golang/" + strings.ToLower(m.path) + "@" + strings.ReplaceAll(m.version, "+", "%2B")
}

func (m module) component() cyclonedx.Component {
	c := cyclonedx.Component{
		BOMRef: m.reference(), Type: cyclonedx.ComponentTypeLibrary, Name: m.path, Version: m.version,
		PackageURL: m.reference(), Licenses: spdx(m.licenses),
	}
	if m.sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.sum}}
	}
	return c
}

// spdx returns licenses, or nil if there are none.
func spdx(ids []string) *cyclonedx.Licenses {
	if len(ids) == 0 {
		return nil
	}
	var all cyclonedx.Licenses
	for _, id := range ids {
		all = append(all, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &all
}
