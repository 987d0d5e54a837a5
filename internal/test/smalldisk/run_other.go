//go:build !linux

package smalldisk

import "testing"

// Run skips the test: only on Linux is there a disk that can be had for a moment.
func Run(t *testing.T, _ int64, _ func(t *testing.T, dir string)) {
	t.Helper()
	t.Skip("no disk can be filled here: that needs a tmpfs in a mount namespace, which only Linux has")
}
