package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// checkTwice builds the release twice and compares all files. Each build has its own folder of sources. The second also
// has an empty build cache, so that it compiles everything again.
func checkTwice(ctx context.Context, o options) (err error) {
	start := time.Now()
	work, err := os.MkdirTemp("", "penstock-twice-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var builds []map[string]string
	for i, name := range []string{"first", "second"} {
		sources, remove, err := o.exportSources(ctx)
		if err != nil {
			return err
		}
		defer remove()
		if i == 1 {
			o.cache = filepath.Join(work, "cache")
		}
		out := filepath.Join(work, name)
		if err := o.build(ctx, sources, out); err != nil {
			return fmt.Errorf("%s build: %w", name, err)
		}
		found, err := fingerprints(out)
		if err != nil {
			return err
		}
		builds = append(builds, found)
	}
	if err := same(builds[0], builds[1]); err != nil {
		return err
	}
	o.report(start, "two builds are identical: %d files", len(builds[0]))
	return nil
}

// fingerprints returns the mode and SHA-256 of all files in a folder, by name.
func fingerprints(dir string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum, err := sha256File(path)
		all[filepath.ToSlash(name)] = info.Mode().String() + " " + sum
		return err
	})
	return all, err
}

// same compares the fingerprints of two builds, and names all files that differ.
func same(first, second map[string]string) error {
	union := maps.Clone(first)
	maps.Copy(union, second)
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(union)) {
		if first[name] != second[name] {
			differ = append(differ, name)
		}
	}
	if len(union) == 0 {
		return errors.New("two builds have no files")
	}
	if len(differ) > 0 {
		return fmt.Errorf("two builds of the same commit differ in %d of %d files: %s",
			len(differ), len(union), strings.Join(differ, ", "))
	}
	return nil
}
