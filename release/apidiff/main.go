// Command apidiff compares the public API of the module with that of the last release:
//
//	go run -C release ./apidiff
//
// It prints all changes. An incompatible change fails, unless the file accepted.txt beside it has the line that the
// report prints. A line there that is no longer reported fails too, so the file is emptied after each release.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "apidiff: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("apidiff", flag.ContinueOnError)
	repository := flags.String("repository", "..", "root of the repository")
	accepted := flags.String("accepted", "apidiff/accepted.txt", "file with accepted incompatible changes, one per line")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; all settings are flags, see -help", flags.Arg(0))
	}
	allowed, err := readAccepted(*accepted)
	if err != nil {
		return err
	}
	now, err := load(ctx, *repository)
	if err != nil {
		return err
	}
	tag, err := lastRelease(ctx, *repository)
	if err != nil {
		return err
	}
	if tag == "" {
		_, err := fmt.Fprintf(w, "no release yet: no tag vX.Y.Z precedes this commit, so nothing was compared; "+
			"%d public packages export %d names\n", len(now.Packages), exported(now))
		if err == nil {
			err = reconcile(nil, allowed, *accepted)
		}
		return err
	}
	before, err := loadTag(ctx, *repository, tag)
	if err != nil {
		return err
	}
	return report(w, tag, before, now, allowed, *accepted)
}
