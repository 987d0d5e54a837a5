package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// versionForm is the form of released versions. Pre-releases are not released.
var versionForm = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`)

func validateVersion(version string) error {
	if !versionForm.MatchString(version) {
		return fmt.Errorf("version %q: must have the form vX.Y.Z, for example v0.1.0 (make release VERSION=v0.1.0)", version)
	}
	return nil
}

// commit is the commit that is released.
type commit struct {
	id   string
	time time.Time // SOURCE_DATE_EPOCH if set, otherwise the time of the commit; in UTC
}

// cleanCommit returns the commit that is checked out. It is an error if the work tree differs from it, or if the tag of
// the version already names another commit.
func cleanCommit(ctx context.Context, repository, version string) (commit, error) {
	status, err := git(ctx, repository, "status", "--porcelain")
	if err != nil {
		return commit{}, err
	}
	if status != "" {
		return commit{}, fmt.Errorf(
			"the work tree has changes; commit or remove them first, because a release is built from a commit:\n%s", status,
		)
	}
	id, err := git(ctx, repository, "rev-parse", "HEAD")
	if err != nil {
		return commit{}, err
	}
	if tagged, err := git(ctx, repository, "rev-parse", "-q", "--verify", "refs/tags/"+version+"^{commit}"); err == nil &&
		tagged != id {
		return commit{}, fmt.Errorf(
			"tag %s names commit %.12s, but %.12s is checked out; check out the tag, or release another version",
			version, tagged, id,
		)
	}
	at, err := sourceTime(ctx, repository)
	return commit{id: id, time: at}, err
}

// sourceTime returns the time that all files of the release have.
func sourceTime(ctx context.Context, repository string) (time.Time, error) {
	text, name := os.Getenv("SOURCE_DATE_EPOCH"), "SOURCE_DATE_EPOCH"
	if text == "" {
		var err error
		name = "time of the commit"
		if text, err = git(ctx, repository, "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 315532800 || seconds > 1<<32-1 { // zip begins in 1980, rpm ends in 2106
		return time.Time{}, fmt.Errorf("%s %q: must be a Unix time in seconds, from 1980 to 2106", name, text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// git runs git in a repository and returns its output without the last line break.
func git(ctx context.Context, repository string, args ...string) (string, error) {
	out, err := output(ctx, repository, nil, "git", args...)
	return strings.TrimRight(string(out), "\n"), err
}

// output runs a program in a folder and returns its standard output. The error has its standard error.
func output(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// exportSources extracts the commit into a temporary folder, so that files that git ignores cannot get into a build.
func (o options) exportSources(ctx context.Context) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "penstock-sources-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	if err := exportTree(ctx, o.repository, o.commit.id, dir); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, remove, nil
}

// exportTree extracts the files of a commit or tag into a folder.
func exportTree(ctx context.Context, repository, tree, dir string) error {
	archive := filepath.Join(dir, ".sources.tar")
	if _, err := git(ctx, repository, "archive", "--format=tar", "-o", archive, tree); err != nil {
		return err
	}
	if _, err := output(ctx, dir, nil, "tar", "-xf", archive); err != nil {
		return err
	}
	return os.Remove(archive)
}
