//go:build !linux && !darwin

package boltq

// sizeOfDisk returns the size of the disk of dir, and how much of it is left for this process; 0 if unknown.
func sizeOfDisk(string) (size, left int64) { return 0, 0 }
