//go:build !linux && !darwin

package boltq

// sizeOfDisk is how large its disk is, and how much of it is left for this process; 0 if that is not known.
func sizeOfDisk(string) (size, left int64) { return 0, 0 }
