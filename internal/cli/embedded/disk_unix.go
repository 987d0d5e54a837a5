//go:build linux || darwin

package embedded

import (
	"fmt"
	"syscall"
)

// FreeBytes returns the free space on the disk of a directory.
func FreeBytes(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}
