// Command release builds everything that a release of Penstock consists of:
//
//	go run -C release . -version v0.1.0 -out ../dist
//
// The same commit and the same Go give the same bytes, on any machine and in any folder. With -check it builds twice,
// in two folders and with two build caches, and compares the results instead of keeping them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// run checks all arguments and the repository before it writes anything.
func run(ctx context.Context, args []string, progress io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(progress)
	version := flags.String("version", "", "version to release, for example v0.1.0")
	out := flags.String("out", "../dist", "folder to fill; an earlier release in it is replaced")
	repository := flags.String("repository", "..", "root of the repository")
	list := flags.String("platforms", "", "platforms to build, for example linux/amd64,darwin/arm64 (default all)")
	check := flags.Bool("check", false, "build twice in different folders and compare; keep nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; all settings are flags, see -help", flags.Arg(0))
	}
	platforms, err := parsePlatforms(*list)
	if err != nil {
		return err
	}
	if err := validateVersion(*version); err != nil {
		return err
	}
	commit, err := cleanCommit(ctx, *repository, *version)
	if err != nil {
		return err
	}
	o := options{
		version: *version, commit: commit, platforms: platforms, programs: programs, repository: *repository,
		progress: progress,
	}
	if *check {
		return checkTwice(ctx, o)
	}
	return fill(*out, func(dir string) error {
		sources, remove, err := o.exportSources(ctx)
		if err != nil {
			return err
		}
		defer remove()
		return o.build(ctx, sources, dir)
	})
}
