package main

import (
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// options say what to build, and from what.
type options struct {
	version    string
	commit     commit
	platforms  []platform
	programs   []program
	repository string
	cache      string // build cache; empty means the default
	progress   io.Writer
}

// number returns the version without the v, as packages write it.
func (o options) number() string { return strings.TrimPrefix(o.version, "v") }

// report prints a line of progress with the time since start.
func (o options) report(start time.Time, format string, args ...any) {
	_, _ = fmt.Fprintf(o.progress, "%6.1fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
}

// binary is a program that was built for a platform.
type binary struct {
	program  program
	platform platform
	path     string
}

// build fills dir with the release of the given sources.
func (o options) build(ctx context.Context, sources, dir string) error {
	stage, err := os.MkdirTemp("", "penstock-stage-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(stage) }()
	binaries, err := o.compile(ctx, sources, filepath.Join(dir, "bin"), stage)
	if err != nil {
		return err
	}
	modules, err := o.licensedModules(ctx, sources, binaries)
	if err != nil {
		return err
	}
	shared, err := o.sharedFiles(ctx, sources, modules)
	if err != nil {
		return err
	}
	for _, step := range []func(dir string, binaries []binary) error{
		func(dir string, b []binary) error { return o.writeBoms(dir, b, modules) },
		func(dir string, b []binary) error { return o.writeArchives(dir, b, shared) },
		func(dir string, b []binary) error { return o.writePackages(dir, stage, b, shared) },
		func(dir string, b []binary) error { return o.writeImages(dir, b, shared) },
		func(dir string, _ []binary) error { return o.writeInstaller(sources, dir) },
		func(dir string, _ []binary) error { return writeChecksums(dir) },
	} {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stopped: %w", err)
		}
		if err := step(dir, binaries); err != nil {
			return err
		}
	}
	return nil
}

// compile builds all programs for all platforms into dir/OS_ARCH/. Programs that only images have go to images.
func (o options) compile(ctx context.Context, sources, dir, images string) ([]binary, error) {
	var all []binary
	for _, p := range o.platforms {
		for _, prog := range o.programs {
			at := dir
			if prog.imageOnly {
				if p.os != "linux" {
					continue
				}
				at = images
			}
			b := binary{prog, p, filepath.Join(at, p.os+"_"+p.arch, prog.name+p.suffix())}
			start := time.Now()
			if err := o.compileOne(ctx, sources, b); err != nil {
				return nil, err
			}
			size, err := b.check(ctx, o.version)
			if err != nil {
				return nil, err
			}
			o.report(start, "%s for %s, %s", prog.name, p, megabytes(size))
			all = append(all, b)
		}
	}
	return all, nil
}

// compileOne builds a program as the Makefile does. All settings that change the result are fixed here, whatever the
// environment says.
func (o options) compileOne(ctx context.Context, sources string, b binary) error {
	env := []string{
		"GOOS=" + b.platform.os, "GOARCH=" + b.platform.arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=-mod=readonly", "GOWORK=off", "GOFIPS140=off",
	}
	if o.cache != "" {
		env = append(env, "GOCACHE="+o.cache)
	}
	_, err := output(ctx, sources, env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags",
		"-s -w -X github.com/penstock/penstock/internal/ops.linkedVersion="+o.version, "-o", b.path, b.program.dir)
	return err
}

// check makes sure that a Linux program is static, and that a program for this machine reports its version. It returns
// the size.
func (b binary) check(ctx context.Context, version string) (int64, error) {
	if b.platform.os == "linux" {
		if err := checkStatic(b.path); err != nil {
			return 0, err
		}
	}
	here := platform{runtime.GOOS, runtime.GOARCH}
	if b.platform == here && !b.program.imageOnly {
		said, err := output(ctx, ".", nil, b.path, "--version")
		if err != nil {
			return 0, err
		}
		if got := strings.TrimSpace(string(said)); got != version {
			return 0, fmt.Errorf("%s --version says %q, want %q", b.path, got, version)
		}
	}
	info, err := os.Stat(b.path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// checkStatic refuses a program that needs a dynamic linker, which an image from scratch does not have.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s: is not static: it names a dynamic linker; build it without cgo", path)
		}
	}
	return nil
}

func megabytes(size int64) string { return fmt.Sprintf("%.1f MB", float64(size)/1e6) }
