package main

import (
	"bytes"
	"embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the packager
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the packager
)

// scripts are what the packages run, and the declaration of their system user.
//
//go:embed linux
var scripts embed.FS

// writePackages writes a deb and an rpm for each Linux platform.
func (o options) writePackages(dir, stage string, binaries []binary, s shared) error {
	for _, p := range o.platforms {
		if p.os != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			start := time.Now()
			info, err := o.packageInfo(filepath.Join(stage, format+"_"+p.arch), format, p, binaries, s)
			if err != nil {
				return err
			}
			packager, err := nfpm.Get(format)
			if err != nil {
				return err
			}
			name := packager.ConventionalFileName(info)
			size, err := create(filepath.Join(dir, name), func(w io.Writer) error { return packager.Package(info, w) })
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			o.report(start, "%s, %s", name, megabytes(size))
		}
	}
	return nil
}

// packageInfo describes a package. It puts the files for it into stage, because nfpm reads them from there.
func (o options) packageInfo(stage, format string, p platform, binaries []binary, s shared) (*nfpm.Info, error) {
	contents, err := packageFiles(format, p, binaries, s)
	if err != nil {
		return nil, err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "penstock", Arch: p.arch, Platform: "linux", Version: o.version, Section: "net", Priority: "optional",
		Maintainer: "Penstock maintainers <penstock@users.noreply.github.com>", Vendor: "Penstock",
		Description: "Job queue with an exact rate\n" +
			"Producers append jobs to bounded queues. Any number of drainers deliver them at one fixed rate.",
		Homepage: "https://" + home, License: "Apache-2.0", MTime: o.commit.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Recommends: []string{"ca-certificates", "tzdata"},
			RPM:        nfpm.RPM{BuildHost: "localhost", Summary: "Job queue with an exact rate"},
		},
	})
	switch format { // programs that add users
	case "deb":
		info.Depends = []string{"passwd"}
	case "rpm":
		info.Depends = []string{"/usr/sbin/useradd"}
	}
	for i, f := range contents {
		source := filepath.Join(stage, fmt.Sprint(i))
		if err := stageFile(source, f.content); err != nil {
			return nil, err
		}
		kind := files.TypeFile
		if strings.HasPrefix(f.name, "/etc/") {
			kind = files.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, &files.Content{
			Source: source, Destination: f.name, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: o.commit.time},
		})
	}
	return info, stageScripts(stage, info)
}

func stageFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// stageScripts adds the scripts that run before and after an installation and a removal.
func stageScripts(stage string, info *nfpm.Info) error {
	for name, at := range map[string]*string{
		"preinstall.sh": &info.Scripts.PreInstall, "postinstall.sh": &info.Scripts.PostInstall,
		"preremove.sh": &info.Scripts.PreRemove, "postremove.sh": &info.Scripts.PostRemove,
	} {
		content, err := scripts.ReadFile("linux/" + name)
		if err != nil {
			return err
		}
		*at = filepath.Join(stage, name)
		if err := stageFile(*at, content); err != nil {
			return err
		}
	}
	return nil
}

// packageFiles returns the files of a package by their absolute names.
func packageFiles(format string, p platform, binaries []binary, s shared) ([]file, error) {
	all, err := programFiles(binaries, p, forHosts)
	if err != nil {
		return nil, err
	}
	all = in("/usr/bin/", all)
	for _, page := range s.manual {
		if page.content, err = gzipped(page.content); err != nil {
			return nil, err
		}
		page.name = "/usr/share/man/man1/" + page.name + ".gz"
		all = append(all, page)
	}
	for _, unit := range s.units {
		if unit.content, err = packagedUnit(unit.name, unit.content); err != nil {
			return nil, err
		}
		unit.name = "/usr/lib/systemd/system/" + unit.name
		all = append(all, unit)
	}
	for _, f := range s.settings {
		if f.name == "penstock.env" { // has passwords
			f.name, f.mode = "/etc/penstock/penstock.env", 0o600
		} else {
			f.name = "/usr/share/doc/penstock/examples/" + f.name
		}
		all = append(all, f)
	}
	sysusers, err := scripts.ReadFile("linux/sysusers.conf")
	if err != nil {
		return nil, err
	}
	all = append(all, file{name: "/usr/lib/sysusers.d/penstock.conf", mode: 0o644, content: sysusers})
	return slices.Concat(all, completionPaths(format, s.completions), licensePaths(format, s.texts)), nil
}

// completionPaths returns the completion scripts where the shells of a distribution look for them.
func completionPaths(format string, scripts []file) []file {
	zsh := map[string]string{"deb": "vendor-completions", "rpm": "site-functions"}[format]
	paths := map[string]string{
		"penstock.bash": "/usr/share/bash-completion/completions/penstock",
		"_penstock":     "/usr/share/zsh/" + zsh + "/_penstock",
		"penstock.fish": "/usr/share/fish/vendor_completions.d/penstock.fish",
	}
	all := slices.Clone(scripts)
	for i := range all {
		all[i].name = paths[all[i].name]
	}
	return all
}

// licensePaths returns the texts where a distribution expects them. The license is called copyright in a deb.
func licensePaths(format string, texts []file) []file {
	all := in("/usr/share/doc/penstock/", texts)
	for i, f := range texts {
		switch {
		case f.name == "LICENSE" && format == "deb":
			all[i].name = "/usr/share/doc/penstock/copyright"
		case format == "rpm" && (f.name == "LICENSE" || f.name == licensesName):
			all[i].name = "/usr/share/licenses/penstock/" + f.name
		}
	}
	return all
}

// packagedUnit returns a unit for the programs in /usr/bin and the system user that packages create. Its folder below
// /var/lib then belongs to that user.
func packagedUnit(name string, unit []byte) ([]byte, error) {
	for _, change := range [][2]string{
		{"\nExecStart=/opt/penstock/bin/", "\nExecStart=/usr/bin/"},
		{"\nDynamicUser=yes\n", "\nUser=penstock\nGroup=penstock\n"},
	} {
		if n := bytes.Count(unit, []byte(change[0])); n != 1 {
			return nil, fmt.Errorf("deploy/systemd/%s has %q %d times, want it once", name, change[0], n)
		}
		unit = bytes.Replace(unit, []byte(change[0]), []byte(change[1]), 1)
	}
	return unit, nil
}
