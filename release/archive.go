package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// archiveName returns the name of an archive without its ending.
func (o options) archiveName(p platform) string {
	return "penstock_" + o.number() + "_" + p.os + "_" + p.arch
}

// writeArchives writes an archive per platform: zip for Windows, tar.gz for others. All files are in one folder.
func (o options) writeArchives(dir string, binaries []binary, s shared) error {
	for _, p := range o.platforms {
		start := time.Now()
		all, err := programFiles(binaries, p, forHosts)
		if err != nil {
			return err
		}
		all = slices.Concat(all, s.texts, in("man/", s.manual), in("completions/", s.completions))
		if p.os == "linux" {
			all = slices.Concat(all, in("systemd/", s.units), in("systemd/", s.settings))
		}
		all = in("penstock-"+o.number()+"/", all)
		name, write := o.archiveName(p)+".tar.gz", writeTarGzip
		if p.os == "windows" {
			name, write = o.archiveName(p)+".zip", writeZip
		}
		size, err := create(filepath.Join(dir, name), func(w io.Writer) error { return write(w, all, o.commit.time) })
		if err != nil {
			return err
		}
		o.report(start, "%s, %s", name, megabytes(size))
	}
	return nil
}

// create writes a new file and returns its size.
func create(path string, write func(io.Writer) error) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return 0, err
	}
	return info.Size(), f.Close()
}

// sorted returns files by name, with the folders that they need.
func sorted(files []file) []file {
	byName := map[string]file{}
	for _, f := range files {
		for i, c := range f.name {
			if c == '/' && i < len(f.name)-1 {
				if dir := f.name[:i+1]; byName[dir].name == "" {
					byName[dir] = file{name: dir, mode: 0o755}
				}
			}
		}
		byName[f.name] = f
	}
	all := make([]file, 0, len(byName))
	for _, f := range byName {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return all
}

// writeTar writes files sorted by name, with the given time and without names of users.
func writeTar(w io.Writer, files []file, at time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range sorted(files) {
		h := &tar.Header{
			Name: f.name, Mode: int64(f.mode.Perm()), Size: int64(len(f.content)), ModTime: at, Typeflag: tar.TypeReg,
			Uid: f.owner, Gid: f.owner, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}

// writeTarGzip writes a compressed tar. Its gzip header has no name and no time.
func writeTarGzip(w io.Writer, files []file, at time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(z, files, at); err != nil {
		return err
	}
	return z.Close()
}

// gzipped returns content as a gzip file without name and time.
func gzipped(content []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(content); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

// writeZip writes a zip with the files sorted by name.
func writeZip(w io.Writer, files []file, at time.Time) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, f := range sorted(files) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		if strings.HasSuffix(f.name, "/") {
			h.Method = zip.Store
			h.SetMode(f.mode | os.ModeDir)
		}
		body, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := body.Write(f.content); err != nil {
			return err
		}
	}
	return z.Close()
}
