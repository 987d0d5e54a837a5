// Package outfile writes the output files of commands.
//
// It promises that a regular file appears complete and on disk, or stays unchanged, and that it replaces the file
// behind a symbolic link, not the link. It writes to devices, pipes and standard output in place. It never renames over
// anything but a regular file, and removes only files that it created.
package outfile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Private is the mode of a file that only its owner can read.
const Private fs.FileMode = 0o600

// Replace calls do to write the file at path. A new file gets mode minus the umask; an existing file gets the bits of
// mode that it already has. When ctx ends, Replace stops waiting for the reader of a pipe.
func Replace(ctx context.Context, path string, mode fs.FileMode, do func(io.Writer) error) error {
	p, err := find(path)
	if err != nil {
		return err
	}
	if p.inPlace {
		return p.write(ctx, do)
	}
	if p.mode != 0 {
		mode &= p.mode
	}
	f, err := p.beside(mode)
	if err != nil {
		return err
	}
	if err = finish(f, do); err == nil {
		err = os.Rename(f.Name(), p.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(p.path))
}

// Create calls do to write a new Private file. An existing regular file is the error fs.ErrExist.
func Create(ctx context.Context, path string, do func(io.Writer) error) error {
	p, err := find(path)
	if err != nil {
		return err
	}
	if p.inPlace && !p.dangling {
		return p.write(ctx, do)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, Private) // does not follow links
	if err != nil {
		return err
	}
	if err = finish(f, do); err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// CheckReplace returns an error if Replace could not write to path. It changes nothing.
func CheckReplace(path string) error {
	p, err := find(path)
	if err != nil || p.inPlace {
		return err
	}
	f, err := p.beside(Private)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// CheckCreate returns an error if Create could not write to path. It changes nothing.
func CheckCreate(path string) error {
	p, err := find(path)
	if err == nil && (p.mode != 0 || p.dangling) {
		err = &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	if err != nil {
		return err
	}
	return CheckReplace(path)
}

// place is what a path refers to.
type place struct {
	path     string      // without links, for a regular file
	mode     fs.FileMode // of an existing regular file; otherwise 0
	inPlace  bool        // must be written in place, not replaced
	dangling bool        // a link to nothing
	own      *os.File    // the standard stream that it is, if any
}

func find(path string) (place, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, err := os.Lstat(path)
		return place{path: path, inPlace: err == nil, dangling: err == nil}, nil
	case err != nil:
		return place{}, err
	case info.IsDir():
		return place{}, fmt.Errorf("%s is a directory, not a file", path)
	}
	for _, own := range []*os.File{os.Stdout, os.Stderr} { // such as /dev/stdout, which must not be truncated or replaced
		if stream, err := own.Stat(); err == nil && os.SameFile(info, stream) {
			return place{path: path, inPlace: true, own: own}, nil
		}
	}
	if !info.Mode().IsRegular() {
		return place{path: path, inPlace: true}, nil
	}
	path, err = filepath.EvalSymlinks(path)
	return place{path: path, mode: info.Mode().Perm()}, err
}

// write writes in place.
func (p place) write(ctx context.Context, do func(io.Writer) error) error {
	if p.own != nil {
		return do(p.own)
	}
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() { // opening a pipe waits for its reader, and cannot be canceled
		f, err := os.OpenFile(p.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, Private)
		done <- opened{f, err}
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case o := <-done:
		if o.err != nil {
			return o.err
		}
		return errors.Join(do(o.f), o.f.Close())
	}
}

// beside creates a temporary file in the same directory.
func (p place) beside(mode fs.FileMode) (*os.File, error) {
	name := filepath.Join(filepath.Dir(p.path), "."+filepath.Base(p.path)+"."+rand.Text())
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o200)
}

// finish writes a regular file, syncs it and closes it.
func finish(f *os.File, do func(io.Writer) error) error {
	err := do(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // directories cannot be synced there
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
