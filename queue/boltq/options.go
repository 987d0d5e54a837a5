package boltq

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// DefaultLockTimeout is the default of Options.LockTimeout.
const DefaultLockTimeout = 500 * time.Millisecond

// Errors in addition to those of package queue.
var (
	// ErrLocked: another process, or another Open, holds the file.
	ErrLocked = errors.New("held by another process")
	// ErrSchema: the file was written by a version with another layout.
	ErrSchema = errors.New("written by another version of penstock")
	// ErrReadOnly: the call would change a file that was opened with Options.ReadOnly.
	ErrReadOnly = errors.New("opened read-only")
)

// Options are the settings of Open. The zero value has good defaults.
type Options struct {
	// Now reads the clock; nil is the wall clock. It may jump either way: the engine's own clock never runs back.
	Now func() leaky.Instant
	// Simulated says that Now is a simulated clock: its jumps ahead are time that has passed, and the engine's clock
	// follows them.
	Simulated bool
	// Logger receives errors that no caller gets; nil discards them.
	Logger *slog.Logger
	// LockTimeout is how long Open waits for another process to release the file; 0 is DefaultLockTimeout.
	LockTimeout time.Duration
	// MaxBytes is the maximum size of the file; 0 is the size of the disk. What does not fit is refused with
	// queue.ErrStoreFull.
	MaxBytes int64
	// Memory is how much memory this process may take; 0 is unlimited. Jobs and everything else in its heap get half of
	// it. What does not fit is refused with queue.ErrStoreFull, and a queue without max_bytes takes at most a quarter.
	Memory int64
	// KeepChanges is how long changes of queues and rules are kept. The store remembers it; 0 leaves it unchanged, or
	// sets queue.KeepChanges in a new store.
	KeepChanges time.Duration
	// ReadOnly leaves the file unchanged: reads are answered, and changes are refused with ErrReadOnly. Several
	// processes may open a file this way, while no process has it open for writing.
	ReadOnly bool
	// Mask returns what the audit log may show of a queue, a rule or a document of a kind, as stored JSON. The kind is
	// "queue" for a queue and "rule" for a rule. nil shows all of it.
	Mask func(kind string, text []byte) []byte

	checked *Checked // for CheckFile: result of the check of the pages; may be nil

	// For tests: openFile replaces os.OpenFile. fault replaces the transaction of a commit, or fails it. synced is
	// called when a commit is on disk, before any caller is told. saveAfter is how long the saver waits for more to
	// save; noSaver leaves saving to the test. auditShares divides the budgets of the audit log.
	openFile    func(string, int, os.FileMode) (*os.File, error)
	fault       func(machine.Transaction) (machine.Transaction, error)
	synced      func()
	saveAfter   time.Duration
	noSaver     bool
	auditShares uint64
}

func (o Options) withDefaults() (Options, error) {
	if o.LockTimeout < 0 {
		return o, fmt.Errorf("boltq: LockTimeout %v: must not be negative", o.LockTimeout)
	}
	if o.MaxBytes < 0 {
		return o, fmt.Errorf("boltq: MaxBytes %d: must not be negative", o.MaxBytes)
	}
	if o.Memory < 0 {
		return o, fmt.Errorf("boltq: Memory %d: must not be negative", o.Memory)
	}
	if err := queue.ValidateKeepChanges(o.KeepChanges); err != nil {
		return o, fmt.Errorf("boltq: %w", err)
	}
	o.LockTimeout = cmp.Or(o.LockTimeout, DefaultLockTimeout)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.saveAfter = cmp.Or(o.saveAfter, saveAfter)
	if o.openFile == nil {
		o.openFile = os.OpenFile
	}
	if o.fault == nil {
		o.fault = func(tx machine.Transaction) (machine.Transaction, error) { return tx, nil }
	}
	if o.synced == nil {
		o.synced = func() {}
	}
	if o.Mask == nil {
		o.Mask = func(_ string, text []byte) []byte { return text }
	}
	return o, nil
}
