package boltq

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// outOfSpace reports whether little of a limited file is left, its disk is nearly full, or a commit found no room a
// moment ago. Each failed commit costs a load of the store, so commits are not tried in a row.
func (e *Engine) outOfSpace(s queue.Space, now time.Time) bool {
	if most := e.opts.MaxBytes; most > 0 && s.Used+int64(e.machine.PendingBytes()) >= s.Stop {
		return true
	}
	return e.opts.MaxBytes == 0 && s.Full() || now.Before(e.fullUntil)
}

func newStoreFile(path string, db storage) storeFile {
	return storeFile{path: path, db: db, scarce: fmt.Errorf("%w: %s: %s", queue.ErrStoreFull, path, machine.KeptForOthers)}
}

// fullFor is the minimum time that calls which need room are refused after a commit found none.
const fullFor = 250 * time.Millisecond

func (e *Engine) noteFull(err error, so time.Duration) {
	now := time.Now()
	if !now.Before(e.fullUntil) {
		e.log.Warn("the store is out of space", "path", e.path, "error", err)
	}
	e.fullUntil = now.Add(so)
}

// reservedBytes is how much of a limited file only changes that free room may use. They need new pages before they free
// old ones, and a page that a reader still sees is not free yet. Without this reserve a full store could not be
// drained.
const reservedBytes = 4 << 20

// reservedOf returns the reserve of a file of that size.
func reservedOf(most int64) int64 { return min(reservedBytes, most/8) }

// noRoom reports whether err says that the file or its disk is full.
func noRoom(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, bolterrors.ErrMaxSizeReached} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func errStoreFull(path string, err error) error {
	return fmt.Errorf("%w: %s: %w", queue.ErrStoreFull, path, err)
}

// Space implements queue.Specs.
func (e *Engine) Space(ctx context.Context) (s queue.Space, err error) {
	err = e.look(ctx, func(leaky.Instant) error {
		now := time.Now()
		s = fuller(e.fileSpace(now), e.heap.space(e.machine.JobsKept(), now))
		if s.Limit > 0 && e.opts.MaxBytes == 0 || s.Memory { // s is about the disk or the memory
			s.Data = e.used.Load()
		}
		return nil
	})
	return s, err
}

// fileSpace returns how full the file is if MaxBytes limits it, else how full its disk is.
func (e *Engine) fileSpace(now time.Time) queue.Space {
	used := e.used.Load()
	if most := e.opts.MaxBytes; most > 0 {
		return queue.Space{Used: used, Stop: most - reservedOf(most), Limit: most}
	}
	size, left := e.disk.look(e.path, now)
	if size == 0 {
		return queue.Space{Used: used}
	}
	return queue.Space{
		Used: size - left - (e.fileSize.Load() - used), Stop: size - min(reservedDiskBytes, size/20), Limit: size,
	}
}

// reservedDiskBytes is how much of the disk appends leave free, for changes that free room and for other programs.
const reservedDiskBytes = 256 << 20

// measure updates how much of the file is used.
func (e *Engine) measure() {
	size, free := e.db.usage()
	e.fileSize.Store(size)
	e.used.Store(size - free)
}

// disk is the size and free space of the file's disk, looked up once a second. The engine's mutex guards it.
type disk struct {
	at         time.Time
	size, free int64
}

// look returns 0, 0 if unknown.
func (d *disk) look(path string, now time.Time) (size, left int64) {
	if d.at.IsZero() || now.Sub(d.at) >= time.Second {
		d.at = now
		d.size, d.free = sizeOfDisk(filepath.Dir(path))
	}
	return d.size, d.free
}
