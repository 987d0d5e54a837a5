package boltq

import (
	"path/filepath"
	"sync"
	"time"
)

// disk is how large the file's disk is, and how much of it is left, looked at once a second.
type disk struct {
	mu         sync.Mutex
	at         time.Time
	size, free int64
}

// look returns 0 if it is not known.
func (d *disk) look(path string) (size, left int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); d.at.IsZero() || now.Sub(d.at) >= time.Second {
		d.at = now
		d.size, d.free = sizeOfDisk(filepath.Dir(path))
	}
	return d.size, d.free
}
