package boltq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq/internal/pagecheck"
	"github.com/penstock/penstock/queue/machine"
)

// damagedError is why a damaged store cannot be opened.
type damagedError struct {
	path  string
	fault error // the first fault found
}

func (e *damagedError) Error() string {
	return fmt.Sprintf("open %s: damaged; restore a backup (penstock check --data DIR checks the whole file): %v",
		e.path, e.fault)
}

// Unwrap makes it a queue.ErrCorrupt.
func (e *damagedError) Unwrap() []error { return []error{queue.ErrCorrupt, e.fault} }

// openError is why a readable file cannot be opened as a store.
func openError(path string, err error) error {
	if errors.Is(err, queue.ErrCorrupt) {
		return &damagedError{path, err}
	}
	return fmt.Errorf("open %s: %w", path, err)
}

// Checked is what CheckFile found to be sound.
type Checked struct {
	Pages, Records, Jobs int64
	PageSize             int64
	// OneMeta is set if one of the two meta pages is damaged, as after a power cut during a commit: the store is as of
	// the commit before.
	OneMeta bool

	progress func(done, all int64)
}

// logProgress returns a progress function that logs how far the check of a large file is, first at next.
func logProgress(path string, log *slog.Logger, next time.Time) func(done, all int64) {
	return func(done, all int64) {
		if now := time.Now(); now.After(next) {
			next = now.Add(checkEvery)
			log.Info("checking the store", "path", path, "pages", done, "of", all)
		}
	}
}

// CheckFile checks every page and every record of the store at path, and changes nothing. No process may use the store
// meanwhile. progress is called with the work done and the total, and may be nil. Errors are those of Open.
func CheckFile(ctx context.Context, path string, progress func(done, all int64)) (Checked, error) {
	if _, err := os.Stat(path); err != nil {
		return Checked{}, fmt.Errorf("open %s: %w", path, err)
	}
	c := Checked{progress: progress}
	// Opening checks every page, and reads all records except the contents of jobs.
	e, err := Open(ctx, path, Options{ReadOnly: true, checked: &c})
	if err != nil {
		return c, err
	}
	err = e.db.view(func(tx machine.Transaction) (err error) {
		c.Jobs, err = machine.CheckJobs(ctx, tx)
		return err
	})
	if errors.Is(err, queue.ErrCorrupt) {
		err = &damagedError{path, err}
	}
	return c, errors.Join(err, e.Close())
}

// checkEvery is the time between log messages about the check of a large file.
const checkEvery = 5 * time.Second

// checkPages checks every page of a file that does not change meanwhile.
func checkPages(ctx context.Context, path string, opts Options) (err error) {
	c := opts.checked
	if c == nil {
		c = &Checked{progress: logProgress(path, opts.Logger, time.Now().Add(checkEvery))}
	}
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return fmt.Errorf("open %s: %w: the file is empty; restore a backup, or remove it to create a new store",
			path, queue.ErrCorrupt)
	}
	f, err := pagecheck.Open(from, info.Size())
	if err == nil && foreign(f) {
		return fmt.Errorf("open %s: %w: a bbolt file of another program", path, queue.ErrCorrupt)
	}
	if err == nil {
		var n pagecheck.Counts
		n, err = f.Check(ctx, c.progress)
		c.Pages, c.Records, c.PageSize, c.OneMeta = n.Pages, n.Records, f.PageSize(), f.OneMeta
	}
	var fault *pagecheck.Fault
	switch {
	case errors.Is(err, pagecheck.ErrForeign):
		return fmt.Errorf("open %s: %w: a file of another program", path, queue.ErrCorrupt)
	case errors.As(err, &fault):
		return &damagedError{path, err}
	case err != nil:
		return fmt.Errorf("open %s: %w", path, err)
	}
	if c.OneMeta {
		opts.Logger.Warn("one of two meta pages is damaged, as after a power cut: the store is as of the commit before",
			"path", path)
	}
	return nil
}

// foreign reports whether a file has tables, and none that a store has.
func foreign(f *pagecheck.File) bool {
	return len(f.Tables) > 0 && !slices.ContainsFunc(f.Tables, func(t pagecheck.Table) bool {
		return slices.ContainsFunc(machine.Tables, func(name []byte) bool { return string(name) == t.Name })
	})
}
