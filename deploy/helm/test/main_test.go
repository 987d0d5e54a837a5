package test

import (
	"os"
	"testing"
)

// The programs save no login where the user has theirs.
func TestMain(m *testing.M) {
	code := func() int {
		dir, err := os.MkdirTemp("", "helmtest-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if err := os.Setenv("XDG_CONFIG_HOME", dir); err != nil {
			panic(err)
		}
		return m.Run()
	}()
	os.Exit(code)
}
