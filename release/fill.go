package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// fill calls build with a new folder beside dir, and renames it to dir when build succeeds. So dir is never half
// filled. It replaces an earlier release, but no other folder.
func fill(dir string, build func(dir string) error) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := replaceable(dir); err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	filled := filepath.Join(work, "new")
	if err := os.Mkdir(filled, 0o755); err != nil {
		return err
	}
	if err := build(filled); err != nil {
		return err
	}
	old := filepath.Join(work, "old")
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(filled, dir); err != nil {
		return errors.Join(err, restore(old, dir))
	}
	return nil
}

// restore puts the earlier release back, if there was one.
func restore(old, dir string) error {
	if err := os.Rename(old, dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// replaceable refuses a folder with files that no release has made.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("-out %s: must be a folder: %w", dir, err)
	case len(entries) == 0:
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, checksumsName)); err != nil {
		return fmt.Errorf("-out %s: has files but no %s, so it is not an earlier release; remove it or use another folder",
			dir, checksumsName)
	}
	return nil
}
