//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// limit is the maximum size of the image with penstock up, compressed.
const limit = 20_000_000

// pulled returns the image of a layout for this machine.
func pulled(t *testing.T, f fixture, name string) v1.Image {
	t.Helper()
	index, err := layout.ImageIndexFromPath(f.file(t, "images/"+name))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifest.Manifests {
		if m.Platform.OS == "linux" && m.Platform.Architecture == runtime.GOARCH {
			img, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return img
		}
	}
	t.Fatalf("%s has no image for linux/%s: %v", name, runtime.GOARCH, manifest.Manifests)
	return nil
}

func TestImages(t *testing.T) {
	f := release(t)
	for _, i := range images {
		img := pulled(t, f, i.name)
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c := config.Config; c.User != "65532:65532" || c.WorkingDir != "/data" || !slices.Equal(c.Cmd, i.command) ||
			config.OS != "linux" || config.Architecture != runtime.GOARCH || !config.Created.Equal(f.options.commit.time) {
			t.Errorf("%s: %+v", i.name, config)
		}
		for label, want := range map[string]string{
			"title": i.name, "version": "v9.8.7", "revision": f.options.commit.id, "licenses": "Apache-2.0",
			"source": "https://github.com/penstock/penstock", "created": "2023-11-14T22:13:20Z",
		} {
			if got := config.Config.Labels["org.opencontainers.image."+label]; got != want {
				t.Errorf("%s: the label %s is %q, want %q", i.name, label, got, want)
			}
		}
		size, err := compressedSize(img)
		if err != nil || size > limit || size < 1_000_000 {
			t.Errorf("%s: %d bytes, want at most %d (%v)", i.name, size, limit, err)
		}
		t.Logf("%s: compressed %s", i.name, megabytes(size))

		archived, err := tarball.ImageFromPath(f.file(t, i.name+"_9.8.7_image_"+runtime.GOARCH+".tar"), nil)
		if err != nil {
			t.Fatal(err)
		}
		one, err1 := img.ConfigName()
		other, err2 := archived.ConfigName()
		if err1 != nil || err2 != nil || one != other {
			t.Errorf("%s: the archive has the configuration %v, the layout %v (%v, %v)", i.name, other, one, err1, err2)
		}
	}
}

// The image runs where nothing else is: no other files, processes or networks.
func TestImageRuns(t *testing.T) {
	f := release(t)
	root := t.TempDir()
	img := pulled(t, f, "penstock")
	files := unpack(t, img, root)
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if program := strings.HasPrefix(name, "usr/bin/"); program && name != "usr/bin/" && name != "usr/bin/penstock" {
			t.Errorf("the image has %s", name)
		}
	}
	out := runInside(t, root, config.Config.Env)
	if !versionLine.MatchString(out) {
		t.Errorf("penstock version: %s", out)
	}
	mustContain(t, "the image", out, "healthy\n", "stopped\n")

	pem, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(pem, []byte("BEGIN CERTIFICATE")); n < 100 || !x509.NewCertPool().AppendCertsFromPEM(pem) {
		t.Errorf("the image has %d root certificates", n)
	}
}

// unpack writes the files of an image with their owners, and returns their names.
func unpack(t *testing.T, img v1.Image, root string) (names []string) {
	t.Helper()
	r := mutate.Extract(img)
	defer func() { _ = r.Close() }()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		path := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(archive); err == nil {
				err = os.WriteFile(path, content, h.FileInfo().Mode().Perm())
			}
		}
		if err = errors.Join(err, os.Chown(path, h.Uid, h.Gid)); err != nil {
			t.Fatal(err)
		}
	}
}
