//go:build linux || darwin

package boltq

import "syscall"

// sizeOfDisk returns the size of the disk of dir, and how much of it is left for this process; 0 if unknown.
func sizeOfDisk(dir string) (size, left int64) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, 0
	}
	block := int64(fs.Bsize) //nolint:unconvert // no int64 on every Unix
	return int64(fs.Blocks) * block, int64(fs.Bavail) * block
}
