package boltq

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// Defaults of Options.
const (
	DefaultLockTimeout = 500 * time.Millisecond
)

// Errors besides those of package queue.
var (
	// ErrLocked: another process, or another Open, holds the file.
	ErrLocked = errors.New("held by another process")
	// ErrSchema: the file was written by a version with another layout.
	ErrSchema = errors.New("written by another version of penstock")
	// ErrReadOnly is of calls that would change a file of Options.ReadOnly.
	ErrReadOnly = errors.New("opened to be read alone")
)

// Options are the settings of Open. The zero value has good defaults.
type Options struct {
	// Now reads the clock; nil is the wall clock. It may jump either way: the engine's own clock never runs back.
	Now func() leaky.Instant
	// Logger receives what no caller is told; nil discards it.
	Logger *slog.Logger
	// LockTimeout is how long Open waits for another process to release the file; 0 is DefaultLockTimeout.
	LockTimeout time.Duration
	// MaxBytes bounds the file; 0 leaves that to the disk. What does not fit is refused with queue.ErrStoreFull.
	MaxBytes int64
	// Memory is what this process may take, of which jobs and all else in its heap get half; 0 bounds nothing. What does
	// not fit is refused with queue.ErrStoreFull, and a queue without max_bytes takes at most a quarter.
	Memory int64
	// KeepChanges is how long changes of queues and rules are kept. The store remembers it; 0 leaves it as it is,
	// or sets queue.KeepChanges in a new store.
	KeepChanges time.Duration
	// ReadOnly leaves the file as it is: what is asked is answered, and what would change it is refused with
	// ErrReadOnly. Several processes may open a file so, at a time when none uses it otherwise.
	ReadOnly bool
	// Mask returns what the audit log may show of a queue, a rule or a document of a kind, JSON as it is stored: of a
	// queue and a rule the kind is "queue" and "rule". nil shows all of it.
	Mask func(kind string, text []byte) []byte

	checked *Checked // of CheckFile: what the check of the pages finds; nil says nothing

	// For tests: openFile replaces os.OpenFile; fault stands in for the
	// transaction of a commit, or fails it; synced is called after each commit is on disk and before anybody is told;
	// saveAfter is how long the saver waits for more to save, and noSaver leaves that to the test; auditShares divides
	// the budgets of the audit log.
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
	if o.LockTimeout == 0 {
		o.LockTimeout = DefaultLockTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
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
	if o.saveAfter == 0 {
		o.saveAfter = saveAfter
	}
	return o, nil
}
