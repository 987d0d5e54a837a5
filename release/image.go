package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user and group of the process, and the owner of /data. It is a number, so that a runtime can see
// that it is not root.
const imageUser = 65532

// image is an OCI image: programs from scratch, with root certificates, time zones and a folder for jobs.
type image struct {
	name, about string
	programs    []string
	command     []string
	ports       []string
}

// images are the images of a release. One image with all programs would have more than twice the size. The image of
// penstock has no probe, which would put it over 20 MB: "penstock -s unix:///data/penstock.sock whoami" checks health.
var images = []image{
	{
		"penstock", "Penstock in one process (penstock up), and the operator's tool",
		[]string{"penstock"},
		[]string{"penstock", "--help"},
		[]string{"8080"},
	},
	{
		"penstock-ingress", "Penstock ingress: accepts jobs over HTTP",
		[]string{"ingress", "probe"},
		[]string{"ingress"},
		[]string{"8080"},
	},
	{
		"penstock-drainer", "Penstock drainer: delivers jobs at the rate of their queue",
		[]string{"drainer", "probe"},
		[]string{"drainer"},
		[]string{"8081"},
	},
}

// writeImages writes each image as an OCI layout for all architectures, and as an archive for docker load per
// architecture.
func (o options) writeImages(dir string, binaries []binary, s shared) error {
	for _, i := range images {
		if !i.built(binaries) {
			continue
		}
		var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		for _, p := range o.platforms {
			if p.os != "linux" {
				continue
			}
			start := time.Now()
			img, err := o.image(i, p, binaries, s)
			if err != nil {
				return err
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{
				Add:        img,
				Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
			})
			path := filepath.Join(dir, i.name+"_"+o.number()+"_image_"+p.arch+".tar")
			tag, err := name.NewTag("ghcr.io/penstock/" + i.name + ":" + o.version)
			if err != nil {
				return err
			}
			if err := tarball.WriteToFile(path, tag, img); err != nil {
				return err
			}
			size, err := compressedSize(img)
			if err != nil {
				return err
			}
			o.report(start, "%s, compressed %s", filepath.Base(path), megabytes(size))
		}
		index = mutate.Annotations(index, o.labels(i)).(v1.ImageIndex)
		at := filepath.Join(dir, "images", i.name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if _, err := layout.Write(at, index); err != nil {
			return err
		}
	}
	return nil
}

// built reports whether all programs of the image were built.
func (i image) built(binaries []binary) bool {
	for _, name := range i.programs {
		if !slices.ContainsFunc(binaries, func(b binary) bool {
			return b.program.name == name && b.platform.os == "linux"
		}) {
			return false
		}
	}
	return true
}

// compressedSize returns how much a registry sends: the layers and the configuration.
func compressedSize(img v1.Image) (int64, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return 0, err
	}
	size := manifest.Config.Size
	for _, l := range manifest.Layers {
		size += l.Size
	}
	return size, nil
}

// image builds an image for a platform. The layer with the programs comes last: the other seldom changes.
func (o options) image(i image, p platform, binaries []binary, s shared) (v1.Image, error) {
	wanted := func(prog program) bool { return slices.Contains(i.programs, prog.name) }
	found, err := programFiles(binaries, p, wanted)
	if err != nil {
		return nil, err
	}
	base := []file{
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: rootCertificates()},
		{name: "usr/share/zoneinfo.zip", mode: 0o644, content: s.zones},
		{name: "data/", mode: 0o755, owner: imageUser},
	}
	own := in("usr/bin/", found)
	for _, t := range s.texts {
		if t.name == "LICENSE" || t.name == licensesName {
			own = append(own, in("usr/share/doc/penstock/", []file{t})...)
		}
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, l := range []struct {
		what  string
		files []file
	}{{"root certificates, time zones, /data", base}, {strings.Join(i.programs, ", "), own}} {
		layer, err := o.layer(l.files)
		if err != nil {
			return nil, err
		}
		if img, err = mutate.Append(img, mutate.Addendum{
			Layer: layer, MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: o.commit.time}, CreatedBy: "release", Comment: l.what},
		}); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: o.commit.time}
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", imageUser, imageUser), WorkingDir: "/data", Cmd: i.command,
		Env:     []string{"PATH=/usr/bin", "ZONEINFO=/usr/share/zoneinfo.zip"},
		Volumes: map[string]struct{}{"/data": {}}, ExposedPorts: map[string]struct{}{}, Labels: o.labels(i),
	}
	for _, port := range i.ports {
		config.Config.ExposedPorts[port+"/tcp"] = struct{}{}
	}
	return mutate.ConfigFile(img, config)
}

func (o options) layer(files []file) (v1.Layer, error) {
	var b bytes.Buffer
	if err := writeTar(&b, files, o.commit.time); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithCompressionLevel(gzip.BestCompression),
		tarball.WithCompressedCaching, tarball.WithMediaType(types.OCILayer))
}

// labels returns the labels of an image, which are also the annotations of its index.
func (o options) labels(i image) map[string]string {
	labels := map[string]string{}
	for name, value := range map[string]string{
		"title": i.name, "description": i.about, "version": o.version, "revision": o.commit.id,
		"created": o.commit.time.Format(time.RFC3339), "licenses": "Apache-2.0", "vendor": "Penstock",
		"url": "https://" + home, "source": "https://" + home,
		"documentation": "https://" + home + "/tree/" + o.version + "/docs",
	} {
		labels["org.opencontainers.image."+name] = value
	}
	return labels
}

// rootCertificates returns the root certificates of Mozilla as PEM. They come from a module, not from the machine, so
// that every machine builds the same image. Roots that are trusted with conditions are left out: PEM cannot state them.
func rootCertificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return b.Bytes()
}

// zoneInfo returns the time zones that Go has.
func zoneInfo(ctx context.Context, sources string) ([]byte, error) {
	root, err := output(ctx, sources, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
}
