package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
)

// report prints the changes since a tag, and fails if they are incompatible and not accepted.
func report(w io.Writer, tag string, before, now *apidiff.Module, allowed []string, file string) error {
	var broken []string
	changes := apidiff.ModuleChanges(before, now).Changes
	for _, c := range changes {
		kind := "compatible  "
		if !c.Compatible {
			kind, broken = "incompatible", append(broken, c.Message)
		}
		if _, err := fmt.Fprintf(w, "%s  %s\n", kind, c.Message); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "compared %d public packages with %s: %d changes, %d of them incompatible\n",
		len(now.Packages), tag, len(changes), len(broken))
	if err != nil {
		return err
	}
	return reconcile(broken, allowed, file)
}

// reconcile compares the incompatible changes with the accepted ones. They must be the same.
func reconcile(broken, allowed []string, file string) error {
	var problems []error
	for _, change := range broken {
		if !slices.Contains(allowed, change) {
			problems = append(problems, fmt.Errorf(
				"incompatible change: %s\n  undo it, or add that text to %s and say in CHANGELOG.md what users must do",
				change, file,
			))
		}
	}
	for _, change := range allowed {
		if !slices.Contains(broken, change) {
			problems = append(problems, fmt.Errorf("%s accepts %q, which is no change since the last release; delete the line",
				file, change))
		}
	}
	return errors.Join(problems...)
}

// readAccepted returns the lines of the file, without comments and empty lines.
func readAccepted(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, nil
}
