package boltq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

type boltFile struct{ *bbolt.DB }

func (f boltFile) view(do func(machine.Transaction) error) error {
	return f.View(func(tx *bbolt.Tx) error { return do(boltTx{tx}) })
}

func (f boltFile) update(do func(machine.Transaction) error) error {
	return f.Update(func(tx *bbolt.Tx) error { return do(boltTx{tx}) })
}

func (f boltFile) usage() (size, free int64) {
	_ = f.View(func(tx *bbolt.Tx) error { size = tx.Size(); return nil })
	s := f.Stats()
	return size, int64(s.FreePageN+s.PendingPageN) * int64(f.Info().PageSize)
}

type boltTx struct{ *bbolt.Tx }

// Table implements machine.Transaction.
func (tx boltTx) Table(name []byte) machine.Table {
	b := tx.Bucket(name)
	if b == nil && added[string(name)] {
		return machine.NewMemory().Table(name)
	}
	if fill := fillPercents[string(name)]; fill != 0 {
		b.FillPercent = fill
	}
	if piecewise[string(name)] {
		return pieceTable{boltTable{b}}
	}
	return boltTable{b}
}

// fillPercents is how full pages get before they are split. Jobs, ended jobs, deferrals and audit entries are only ever
// appended. Tallies are mostly appended too, but then updated.
var fillPercents = map[string]float64{"jobs": 1, "ended": 1, "deferred": 1, "audit": 1, "tallies": 0.9}

type boltTable struct{ *bbolt.Bucket }

// Cursor implements machine.Table.
func (t boltTable) Cursor() machine.Cursor { return t.Bucket.Cursor() }

// lockRetry is the time between attempts to open a file that another process holds.
const lockRetry = 25 * time.Millisecond

func openFile(ctx context.Context, path string, opts Options) (*bbolt.DB, error) {
	settings := &bbolt.Options{
		Timeout: time.Nanosecond, // one attempt: the loop below waits, and respects ctx
		// Opening scans for free pages; they are not written with each commit.
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		ReadOnly:       opts.ReadOnly,
		MaxSize:        int(opts.MaxBytes),
		OpenFile:       opts.openFile,
		NoStatistics:   opts.MaxBytes == 0, // for a limited file, Stats tells how much is free
	}
	if runtime.GOOS != "windows" { // there the file would grow to it at once
		settings.InitialMmapSize = 1 << 30 // of address space: readers are blocked whenever it must grow
	}
	for deadline := time.Now().Add(opts.LockTimeout); ; {
		db, err := openSound(ctx, path, settings, opts)
		switch {
		case err == nil:
			return db, nil
		case errors.Is(err, queue.ErrCorrupt):
			return nil, err
		case !errors.Is(err, bolterrors.ErrTimeout):
			return nil, fmt.Errorf("open %s: %w", path, err)
		case time.Now().After(deadline):
			return nil, fmt.Errorf("open %s: %w: only one process can use an embedded store; "+
				"stop that one, talk to it with --server, or use --redis for several", path, ErrLocked)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("open %s: %w", path, ctx.Err())
		case <-time.After(lockRetry):
		}
	}
}

// openSound opens a sound or new file. bbolt trusts what it reads: a damaged file would end the process.
func openSound(ctx context.Context, path string, settings *bbolt.Options, opts Options) (*bbolt.DB, error) {
	if _, err := os.Stat(path); err == nil {
		if err := checkLocked(ctx, path, settings, opts); err != nil {
			return nil, err
		}
	}
	db, err := bbolt.Open(path, 0o600, settings)
	if err == nil && settings.MaxSize > 0 {
		// bbolt grows the file by this much more than it needs, and fails the commit if that exceeds MaxSize.
		db.AllocSize = min(db.AllocSize, int(reservedOf(int64(settings.MaxSize)))/4)
	}
	return db, err
}

// checkLocked checks the pages of a file while no other process can change it.
func checkLocked(ctx context.Context, path string, settings *bbolt.Options, opts Options) error {
	look := *settings
	look.ReadOnly = true // reads only the meta pages, which have checksums
	db, err := bbolt.Open(path, 0o600, &look)
	if errors.Is(err, bolterrors.ErrTimeout) {
		return err
	}
	found := checkPages(ctx, path, opts)
	if err != nil {
		return cmp.Or(found, err)
	}
	return errors.Join(found, db.Close())
}

// syncDir makes the name of a new file durable; its content already is.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
