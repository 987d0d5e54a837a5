//go:build !linux

package smalldisk

import "testing"

// Run skips the test: temporary disks are available only on Linux.
func Run(t *testing.T, _ int64, _ func(t *testing.T, dir string)) {
	t.Helper()
	t.Skip("no disk can be filled here: that needs a tmpfs in a mount namespace, which only Linux has")
}
