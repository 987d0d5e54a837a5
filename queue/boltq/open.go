package boltq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/penstock/penstock/queue"
)

// Open opens the store in the file at path, creating it if it does not exist, and starts the engine's two
// goroutines, which Close ends; to be read only, neither. Its errors wrap ErrLocked, ErrSchema, queue.ErrCorrupt, the file system's, or
// ctx's.
func Open(ctx context.Context, path string, opts Options) (*Engine, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	db, err := openFile(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		opts: opts, log: opts.Logger, storeFile: storeFile{path: path, db: db},
		committer: committer{ended: make(chan struct{})},
		saver:     saver{saveWanted: make(chan struct{}, 1), saverEnded: make(chan struct{})},
		closingCh: make(chan struct{}),
		machine:   newMachine(newEpoch()),
	}
	e.work.L = &e.mu
	e.clock.source = opts.Now
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), db.Close())
	}
	if opts.ReadOnly {
		close(e.ended)
		close(e.saverEnded)
		return e, nil
	}
	go e.runCommitter()
	go e.runSaver()
	if err := e.takeBackPersisted(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), e.Close())
	}
	return e, nil
}

func (e *Engine) start(ctx context.Context) (err error) {
	if err := e.initialise(); err != nil {
		return err
	}
	if e.file, err = os.Stat(e.path); err != nil {
		return err
	}
	if err := e.keepChanges(); err != nil {
		return err
	}
	return e.load(ctx)
}

// keepChanges stores how long changes are kept, or reads it if the options do not say.
func (e *Engine) keepChanges() error {
	if d := e.opts.KeepChanges; d != 0 {
		return e.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaTable).Put(keepChangesKey, key(uint64(d))) })
	}
	e.opts.KeepChanges = queue.KeepChanges
	return e.db.View(func(tx *bbolt.Tx) error {
		v := tx.Bucket(metaTable).Get(keepChangesKey)
		if v == nil {
			return nil
		}
		if len(v) != 8 || queue.ValidateKeepChanges(time.Duration(binary.BigEndian.Uint64(v))) != nil {
			return fmt.Errorf("%w: how long changes are kept", queue.ErrCorrupt)
		}
		e.opts.KeepChanges = time.Duration(binary.BigEndian.Uint64(v))
		return nil
	})
}

// lockRetry is how often a file that another process holds is tried again.
const lockRetry = 25 * time.Millisecond

func openFile(ctx context.Context, path string, opts Options) (*bbolt.DB, error) {
	settings := &bbolt.Options{
		Timeout: time.Nanosecond, // one attempt: the loop below waits, and heeds ctx
		// Free pages are found by a scan on opening instead of being written with each commit.
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		ReadOnly:       opts.ReadOnly,
		MaxSize:        int(opts.MaxBytes),
		OpenFile:       opts.openFile,
		NoStatistics:   opts.MaxBytes == 0, // a bounded file is asked how much is free
	}
	if runtime.GOOS != "windows" { // there the file would grow to it at once
		settings.InitialMmapSize = 1 << 30 // of address space: readers stop whenever it must grow
	}
	for deadline := time.Now().Add(opts.LockTimeout); ; {
		db, err := openComplete(path, settings)
		switch {
		case err == nil:
			return db, nil
		case errors.Is(err, bolterrors.ErrInvalid), errors.Is(
			err, bolterrors.ErrVersionMismatch,
		), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, errTruncated):
			return nil, fmt.Errorf("open %s: %w: %w", path, queue.ErrCorrupt, err)
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

var errTruncated = errors.New("the file is shorter than it says: it was cut, or a copy of it was not complete")

// openComplete opens a file that is as long as it claims, or new. bbolt maps the file and trusts its length:
// reading beyond the end would kill the process.
func openComplete(path string, settings *bbolt.Options) (*bbolt.DB, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		look := *settings
		look.ReadOnly = true // without reading all pages
		db, err := bbolt.Open(path, 0o600, &look)
		if err != nil {
			return nil, err
		}
		err = db.View(func(tx *bbolt.Tx) error {
			if tx.Size() > info.Size() {
				return errTruncated
			}
			return nil
		})
		if err := errors.Join(err, db.Close()); err != nil {
			return nil, err
		}
	}
	return bbolt.Open(path, 0o600, settings)
}

// initialise makes a new file a store, and refuses one that is none.
func (e *Engine) initialise() error {
	fresh := false
	err := e.db.View(func(tx *bbolt.Tx) error {
		name, _ := tx.Cursor().First()
		if fresh = name == nil; fresh {
			return nil
		}
		return checkSchema(tx)
	})
	if err != nil || !fresh {
		return err
	}
	err = e.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range allTables {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		var s effects
		s.putStore(storeRecord{})
		if err := (&tables{tx: tx}).write(&s); err != nil {
			return err
		}
		return tx.Bucket(metaTable).Put(schemaKey, binary.BigEndian.AppendUint32(nil, schema))
	})
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(e.path))
}

func checkSchema(tx *bbolt.Tx) error {
	meta := tx.Bucket(metaTable)
	if meta == nil || len(meta.Get(schemaKey)) != 4 {
		return fmt.Errorf("%w: a bbolt file of another program", queue.ErrCorrupt)
	}
	if v := binary.BigEndian.Uint32(meta.Get(schemaKey)); v != schema {
		return fmt.Errorf(
			"%w: its schema is %d, this version knows up to %d; use a newer penstock", ErrSchema, v, schema,
		)
	}
	for _, name := range allTables {
		if tx.Bucket(name) == nil {
			return fmt.Errorf("%w: table %s is missing", queue.ErrCorrupt, name)
		}
	}
	return nil
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
