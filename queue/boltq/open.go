package boltq

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// Open opens the store in the file at path, creating it if it does not exist. It starts the engine's two goroutines,
// which Close ends. With Options.ReadOnly it creates no file and starts no goroutine. Errors wrap ErrLocked, ErrSchema,
// queue.ErrCorrupt, the file system's, or ctx's.
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

// OpenMemory opens an empty store in memory, for tests and simulations. It gives the same answers as a store in a file,
// without waiting for a disk, and nothing outlives it. It holds 1 GiB unless MaxBytes says otherwise. Errors are those
// of wrong options.
func OpenMemory(ctx context.Context, opts Options) (*Engine, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if opts.ReadOnly {
		return nil, errors.New("boltq: ReadOnly: a store in memory is always empty when it is opened")
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 1 << 30
	}
	return open(ctx, "", inMemory{machine.NewMemory()}, opts)
}

// open opens the store that db keeps, and closes db if that fails. A store in memory has no path.
func open(ctx context.Context, path string, db storage, opts Options) (*Engine, error) {
	e := &Engine{
		opts: opts, log: opts.Logger, storeFile: newStoreFile(path, db), epoch: newEpoch(),
		committer: committer{ended: make(chan struct{}), awaited: map[uint64]*outcome{}},
		saver:     saver{saveWanted: make(chan struct{}, 1), saverEnded: make(chan struct{})},
		closingCh: make(chan struct{}),
		wakes:     listeners[queue.Wakeup]{}, rooms: listeners[string]{},
	}
	e.work.L, e.machine = &e.mu, machine.New(e.epoch)
	e.clock.source, e.clock.simulated, e.heap = opts.Now, opts.Simulated, newHeap(opts.Memory)
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(openError(path, err), db.Close())
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

// newEpoch returns a random number that distinguishes this process' fences from others'.
func newEpoch() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint64(b[:])
}

func (e *Engine) start(ctx context.Context) (err error) {
	if f, is := e.db.(boltFile); is {
		if err := f.initialise(e.path); err != nil {
			return err
		}
		if e.file, err = os.Stat(e.path); err != nil {
			return err
		}
	}
	if err := e.keepChanges(); err != nil {
		return err
	}
	e.measure()
	return e.db.view(func(tx machine.Transaction) error {
		if e.clock.Clock, err = machine.ClockOf(tx); err != nil {
			return err
		}
		e.clock.read(time.Now(), 0)
		e.machine.Ahead = e.clock.Ahead
		return e.machine.Load(ctx, tx, e.clock.Last)
	})
}

// takeBackPersisted takes back leases that were on file: their holders died with the previous process.
func (e *Engine) takeBackPersisted(ctx context.Context) error {
	for more := true; more; {
		err := e.do(ctx, func(now leaky.Instant) (wait uint64, err error) {
			wait, more = e.machine.TakeBackPersisted(now)
			return wait, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keepChanges stores how long changes are kept, or reads it if the options do not say.
func (e *Engine) keepChanges() error {
	if d := e.opts.KeepChanges; d != 0 && !e.opts.ReadOnly {
		return e.db.update(func(tx machine.Transaction) error {
			return tx.Table(machine.MetaTable).Put(keepChangesKey, binary.BigEndian.AppendUint64(nil, uint64(d)))
		})
	}
	e.opts.KeepChanges = queue.KeepChanges
	return e.db.view(func(tx machine.Transaction) error {
		v := tx.Table(machine.MetaTable).Get(keepChangesKey)
		if v == nil {
			return nil
		}
		if len(v) != 8 || queue.ValidateKeepChanges(time.Duration(binary.BigEndian.Uint64(v))) != nil {
			return fmt.Errorf("%w: an invalid retention of changes", queue.ErrCorrupt)
		}
		e.opts.KeepChanges = time.Duration(binary.BigEndian.Uint64(v))
		return nil
	})
}

// Keys in MetaTable in addition to the machine's.
var (
	schemaKey      = []byte("schema")
	keepChangesKey = []byte("keepchanges")
)

// schema is the version of the file's layout. Files of other versions are refused.
const schema = 1

// initialise makes a new file a store, and refuses a file that is not a store.
func (f boltFile) initialise(path string) error {
	fresh := false
	err := f.View(func(tx *bbolt.Tx) error {
		name, _ := tx.Cursor().First()
		if fresh = name == nil; fresh {
			return nil
		}
		return checkSchema(tx)
	})
	if err == nil && !fresh {
		return f.addTables()
	}
	if err != nil {
		return err
	}
	err = f.Update(func(tx *bbolt.Tx) error {
		for _, name := range machine.Tables {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		if err := machine.Initialise(boltTx{tx}); err != nil {
			return err
		}
		return tx.Bucket(machine.MetaTable).Put(schemaKey, binary.BigEndian.AppendUint32(nil, schema))
	})
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// added are the tables that files of earlier versions do not have.
var added = map[string]bool{"samples": true, "lanedebts": true}

// addTables makes the tables that a file of an earlier version lacks. In a file that is only read, they are empty.
func (f boltFile) addTables() error {
	lacking := func(tx *bbolt.Tx) bool {
		for name := range added {
			if tx.Bucket([]byte(name)) == nil {
				return true
			}
		}
		return false
	}
	lacks := false
	err := f.View(func(tx *bbolt.Tx) error { lacks = lacking(tx); return nil })
	if err != nil || !lacks || f.IsReadOnly() {
		return err
	}
	return f.Update(func(tx *bbolt.Tx) error {
		for name := range added {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkSchema(tx *bbolt.Tx) error {
	meta := tx.Bucket(machine.MetaTable)
	if meta == nil || len(meta.Get(schemaKey)) != 4 {
		return fmt.Errorf("%w: table %s does not have its schema", queue.ErrCorrupt, machine.MetaTable)
	}
	if v := binary.BigEndian.Uint32(meta.Get(schemaKey)); v != schema {
		return fmt.Errorf(
			"%w: its schema is %d, this version supports up to %d; upgrade penstock", ErrSchema, v, schema,
		)
	}
	for _, name := range machine.Tables {
		if tx.Bucket(name) == nil && !added[string(name)] {
			return fmt.Errorf("%w: table %s is missing", queue.ErrCorrupt, name)
		}
	}
	return nil
}
