package boltq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock/penstock/queue"
)

// Open opens the store in the file at path, creating it if it does not exist, and starts the engine's two
// goroutines, which Close ends; to be read only, neither. Its errors wrap ErrLocked, ErrSchema, queue.ErrCorrupt, the
// file system's, or ctx's.
func Open(ctx context.Context, path string, opts Options) (*Engine, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	db, err := openFile(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, path, boltFile{db}, opts)
}

// OpenMemory opens an empty store that lives in memory alone, for tests and simulations: it answers as one in a file
// does, without waiting for a disk, and nothing outlives it. It holds 1 GiB, if MaxBytes does not say otherwise. Its
// errors are those of wrong options.
func OpenMemory(ctx context.Context, opts Options) (*Engine, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if opts.ReadOnly {
		return nil, errors.New("boltq: ReadOnly: a store in memory is empty when it is opened, so there is nothing to read")
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 1 << 30
	}
	return open(ctx, "", &memory{}, opts)
}

// open opens the store that db keeps, and closes db if it cannot. One in memory has no path.
func open(ctx context.Context, path string, db storage, opts Options) (*Engine, error) {
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
	if !e.inMemory() {
		go e.runCommitter()
	}
	if opts.noSaver {
		close(e.saverEnded)
	} else {
		go e.runSaver()
	}
	if err := e.takeBackPersisted(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), e.Close())
	}
	return e, nil
}

func (e *Engine) start(ctx context.Context) (err error) {
	if err := e.initialise(); err != nil {
		return err
	}
	if !e.inMemory() {
		if e.file, err = os.Stat(e.path); err != nil {
			return err
		}
	}
	if err := e.keepChanges(); err != nil {
		return err
	}
	return e.load(ctx)
}

// keepChanges stores how long changes are kept, or reads it if the options do not say.
func (e *Engine) keepChanges() error {
	if d := e.opts.KeepChanges; d != 0 && !e.opts.ReadOnly {
		return e.db.update(func(t *tables) error { return t.table(metaTable).Put(keepChangesKey, key(uint64(d))) })
	}
	e.opts.KeepChanges = queue.KeepChanges
	return e.db.view(func(t *tables) error {
		v := t.table(metaTable).Get(keepChangesKey)
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

// initialise makes a new file a store, and refuses one that is none.
func (e *Engine) initialise() error {
	fresh := false
	err := e.db.view(func(t *tables) error {
		if fresh = t.blank(); fresh {
			return nil
		}
		return checkSchema(t)
	})
	if err != nil || !fresh {
		return err
	}
	err = e.db.update(func(t *tables) error {
		for _, name := range allTables {
			if err := t.create(name); err != nil {
				return err
			}
		}
		var s effects
		s.putStore(storeRecord{})
		if err := t.write(&s); err != nil {
			return err
		}
		return t.table(metaTable).Put(schemaKey, binary.BigEndian.AppendUint32(nil, schema))
	})
	if err != nil {
		return err
	}
	if e.inMemory() {
		return nil
	}
	return syncDir(filepath.Dir(e.path))
}

func checkSchema(t *tables) error {
	meta := t.table(metaTable)
	if meta == nil || len(meta.Get(schemaKey)) != 4 {
		return fmt.Errorf("%w: a bbolt file of another program", queue.ErrCorrupt)
	}
	if v := binary.BigEndian.Uint32(meta.Get(schemaKey)); v != schema {
		return fmt.Errorf(
			"%w: its schema is %d, this version knows up to %d; use a newer penstock", ErrSchema, v, schema,
		)
	}
	for _, name := range allTables {
		if t.table(name) == nil {
			return fmt.Errorf("%w: table %s is missing", queue.ErrCorrupt, name)
		}
	}
	return nil
}
