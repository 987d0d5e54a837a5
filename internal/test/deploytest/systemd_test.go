package deploytest

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// needsSystemd is the first with credentials by %d and reviews without a running systemd.
const needsSystemd = 250

// exposure is the most that systemd-analyze security may say of a unit, in tenths.
const exposure = "15"

// systemdFaults asks systemd itself where there is one. Where there is none unitFaults, which is always run, says the
// most of it.
func systemdFaults(t *testing.T, deploy files) (found faults) {
	analyze := analyzer(t)
	if analyze == "" {
		return nil
	}
	// It looks whether the programs are there.
	bin := t.TempDir()
	for _, name := range []string{"ingress", "drainer", "penstock"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range deploy.inDir("systemd", ".service") {
		dir := t.TempDir()
		file := filepath.Join(dir, path.Base(name))
		write(t, file, strings.ReplaceAll(deploy[name], binaries, bin+"/"))
		if err := os.Mkdir(file+".d", 0o700); err != nil {
			t.Fatal(err)
		}
		for _, dropIn := range deploy.inDir("systemd", ".conf") {
			write(t, filepath.Join(file+".d", path.Base(dropIn)), deploy[dropIn])
		}
		for _, args := range [][]string{{"verify", "--man=no", file}, {
			"security", "--offline=yes", "--no-pager", "--threshold=" + exposure, file,
		}} {
			out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
			// verify warns of a directive that it does not know, and ends with 0. Other units of the machine are none of ours.
			warned := args[0] == "verify" && strings.Contains(string(out), "penstock")
			if err != nil || warned {
				found.add("%s: systemd-analyze %s: %v\n%s", name, args[0], err, out)
			}
		}
	}
	return found
}

// analyzer is systemd-analyze, or nothing where there is none that can do this.
func analyzer(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("no systemd-analyze on this machine: the units are checked by this test's own reader only")
		return ""
	}
	out, err := exec.CommandContext(t.Context(), path, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	var version int
	if _, err := fmt.Sscanf(string(out), "systemd %d", &version); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if version < needsSystemd {
		t.Logf(
			"systemd %d is older than the %d that README.md asks for: the units are checked by this test's own reader only",
			version, needsSystemd,
		)
		return ""
	}
	return path
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
