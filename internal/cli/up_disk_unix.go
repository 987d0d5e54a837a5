//go:build linux || darwin

package cli

import (
	"fmt"
	"syscall"
)

// freeBytes is how much room a directory's disk has.
func freeBytes(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("how much room there is in %s: %w", dir, err)
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}
