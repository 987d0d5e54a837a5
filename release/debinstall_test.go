//go:build linux

package main

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// dpkg installs, upgrades and removes the package, with its scripts. It needs root, for a layer over this machine's
// files.
func TestDebInstalls(t *testing.T) {
	f := release(t)
	script, err := filepath.Abs("testdata/install_deb.sh")
	if err != nil {
		t.Fatal(err)
	}
	out := tool(t, "unshare", "--mount", "sh", script, t.TempDir(), f.file(t, "penstock_9.8.7_"+runtime.GOARCH+".deb"))
	mustContain(t, "dpkg", out, ":/var/lib/penstock:/usr/sbin/nologin\n", "penstock v9.8.7 (go",
		"after an upgrade: PENSTOCK_REDIS=changed\n", "removed\n", "purged\n")
	if strings.Contains(out, "warning") {
		t.Errorf("dpkg warns: %s", out)
	}
}
