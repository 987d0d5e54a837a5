package main

import (
	"strings"
	"testing"
)

// Two builds in different folders are identical. make check-release does the same for all platforms, and compiles
// everything again for the second.
func TestTwoBuildsAreIdentical(t *testing.T) {
	f := release(t)
	first, err := fingerprints(f.first)
	if err != nil {
		t.Fatal(err)
	}
	second, err := fingerprints(f.second)
	if err != nil {
		t.Fatal(err)
	}
	if err := same(first, second); err != nil {
		t.Error(err)
	}
	for _, name := range []string{
		"SHA256SUMS", "install.sh", "penstock_9.8.7_windows_amd64.zip", "penstock_9.8.7.cdx.json",
		"bin/windows_amd64/penstock.exe", "images/penstock/index.json", "images/penstock-drainer/oci-layout",
	} {
		if first[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	for name, print := range first {
		if !strings.HasPrefix(print, "-r") {
			t.Errorf("%s is no plain file: %s", name, print)
		}
	}
}

func TestDifferencesAreFound(t *testing.T) {
	for _, c := range []struct {
		what          string
		first, second map[string]string
		want          string
	}{
		{"changed", map[string]string{"a": "1", "b": "1"}, map[string]string{"a": "1", "b": "2"}, "1 of 2 files: b"},
		{"missing", map[string]string{"a": "1", "b": "1"}, map[string]string{"a": "1"}, "1 of 2 files: b"},
		{"added", map[string]string{}, map[string]string{"c": "1"}, "1 of 1 files: c"},
		{"empty", map[string]string{}, map[string]string{}, "no files"},
	} {
		if err := same(c.first, c.second); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	if err := same(map[string]string{"a": "1"}, map[string]string{"a": "1"}); err != nil {
		t.Error(err)
	}
}
