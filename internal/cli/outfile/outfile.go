// Package outfile writes the files that the tool's commands are told to write.
//
// It promises that a regular file appears whole and on disk, or stays as it was, and that a symbolic link stays one:
// the file behind it is replaced. Devices, pipes and this process's own standard output are written in place. It never
// renames over anything but a regular file, and never removes what it did not make.
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

// Replace has a function write the file at path. A new file gets the mode, less the umask. A file that exists keeps
// that part of its mode that the new one has as well. When ctx ends, Replace no longer waits for the reader of a pipe.
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

// Create has a function write a new Private file. A regular file that exists is an error, fs.ErrExist.
func Create(ctx context.Context, path string, do func(io.Writer) error) error {
	p, err := find(path)
	if err != nil {
		return err
	}
	if p.inPlace && !p.dangling {
		return p.write(ctx, do)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, Private) // follows no link
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

// CheckReplace reports why Replace could not write to path. It leaves everything as it is.
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

// CheckCreate reports why Create could not write to path. It leaves everything as it is.
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

// place is where a path leads.
type place struct {
	path     string      // without the links on the way, if a regular file is or will be there
	mode     fs.FileMode // of the regular file that exists; 0 if none does
	inPlace  bool        // to be opened and written, not replaced
	dangling bool        // a link to nothing
	own      *os.File    // the standard stream of this process that it is
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
		return place{}, fmt.Errorf("%s is a directory: name a file", path)
	}
	for _, own := range []*os.File{os.Stdout, os.Stderr} { // /dev/stdout, which may not be truncated or replaced
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

// write writes to what is there already.
func (p place) write(ctx context.Context, do func(io.Writer) error) error {
	if p.own != nil {
		return do(p.own)
	}
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() { // opening a pipe waits for its reader, and nothing else can end that
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

// beside makes a file that can take the place of the one at p.
func (p place) beside(mode fs.FileMode) (*os.File, error) {
	name := filepath.Join(filepath.Dir(p.path), "."+filepath.Base(p.path)+"."+rand.Text())
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o200)
}

// finish writes a regular file, ends with it on disk, and closes it.
func finish(f *os.File, do func(io.Writer) error) error {
	err := do(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // which has no such thing
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
