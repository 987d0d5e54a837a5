package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/mod/semver"
	"golang.org/x/tools/go/packages"
)

// notPublic are the folders whose packages nobody can or should import.
var notPublic = []string{"cmd", "deploy", "docs", "examples", "clients", "scripts"}

// public reports whether a package, named relative to the module, belongs to the API.
func public(relative string) bool {
	for i, part := range strings.Split(relative, "/") {
		if part == "internal" {
			return false
		}
		for _, dir := range notPublic {
			if i == 0 && part == dir {
				return false
			}
		}
	}
	return true
}

// load returns the public packages of the module in a folder.
func load(ctx context.Context, dir string) (*apidiff.Module, error) {
	config := &packages.Config{
		Context: ctx, Dir: dir,
		Mode: packages.NeedName | packages.NeedModule | packages.NeedTypes | packages.NeedImports,
		Env:  append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0"),
	}
	all, err := packages.Load(config, "./...")
	if err != nil {
		return nil, err
	}
	m := &apidiff.Module{}
	for _, p := range all {
		if p.Module == nil {
			return nil, fmt.Errorf("package %s belongs to no module", p.PkgPath)
		}
		m.Path = p.Module.Path
		relative := strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, m.Path), "/")
		if p.Name == "main" || !public(relative) {
			continue
		}
		for _, e := range p.Errors {
			return nil, fmt.Errorf("package %s: %w", p.PkgPath, e)
		}
		m.Packages = append(m.Packages, p.Types)
	}
	if len(m.Packages) == 0 {
		return nil, fmt.Errorf("%s has no public packages; -repository must name the root of the module", dir)
	}
	return m, nil
}

// exported counts the exported names of all packages, without methods and fields.
func exported(m *apidiff.Module) (n int) {
	for _, p := range m.Packages {
		for _, name := range p.Scope().Names() {
			if p.Scope().Lookup(name).Exported() {
				n++
			}
		}
	}
	return n
}

// lastRelease returns the highest tag vX.Y.Z that precedes the commit that is checked out, or "". A tag of this commit
// itself does not count: the check of a release compares with the release before.
func lastRelease(ctx context.Context, repository string) (string, error) {
	merged, err := git(ctx, repository, "tag", "--merged", "HEAD")
	if err != nil {
		return "", err
	}
	own, err := git(ctx, repository, "tag", "--points-at", "HEAD")
	if err != nil {
		return "", err
	}
	here := map[string]bool{}
	for _, tag := range strings.Fields(own) {
		here[tag] = true
	}
	last := ""
	for _, tag := range strings.Fields(merged) {
		if semver.IsValid(tag) && semver.Canonical(tag) == tag && semver.Prerelease(tag) == "" && !here[tag] &&
			semver.Compare(tag, last) > 0 {
			last = tag
		}
	}
	return last, nil
}

// loadTag returns the public packages of a tag.
func loadTag(ctx context.Context, repository, tag string) (m *apidiff.Module, err error) {
	dir, err := os.MkdirTemp("", "penstock-api-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	archive := filepath.Join(dir, "sources.tar")
	if _, err := git(ctx, repository, "archive", "--format=tar", "-o", archive, tag); err != nil {
		return nil, err
	}
	sources := filepath.Join(dir, "sources")
	if err := os.Mkdir(sources, 0o755); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", sources).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("tar -xf %s: %w\n%s", archive, err, out)
	}
	if m, err = load(ctx, sources); err != nil {
		return nil, fmt.Errorf("%s: %w", tag, err)
	}
	return m, nil
}

// git runs git in a repository and returns its output without the last line break.
func git(ctx context.Context, repository string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = repository
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimRight(string(out), "\n"), nil
}
