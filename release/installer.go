package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// writeInstaller writes install.sh for this version.
func (o options) writeInstaller(sources, dir string) error {
	script, err := os.ReadFile(filepath.Join(sources, "release", "install.sh"))
	if err != nil {
		return err
	}
	if n := bytes.Count(script, []byte("@VERSION@")); n != 1 {
		return fmt.Errorf("release/install.sh has @VERSION@ %d times, want it once", n)
	}
	script = bytes.Replace(script, []byte("@VERSION@"), []byte(o.version), 1)
	return os.WriteFile(filepath.Join(dir, "install.sh"), script, 0o755)
}
