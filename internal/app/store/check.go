package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue/boltq"
)

// Check checks every page and record of the embedded store in a directory, and changes nothing. No process may use the
// store meanwhile. progress is called with the number of checked pages, and may be nil. The error of a damaged store is
// a queue.ErrCorrupt.
func Check(ctx context.Context, dir string, progress func(done, all int64)) (boltq.Checked, error) {
	path := filepath.Join(dir, FileName)
	found, err := boltq.CheckFile(ctx, path, progress)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return found, ops.Misuse(fmt.Errorf("--data %s: there is no embedded store (%s) in this directory", dir, FileName))
	case errors.Is(err, boltq.ErrLocked):
		return found, fmt.Errorf("--data %s: in use: stop penstock up, or check a copy: %w", dir, err)
	case err != nil:
		return found, fmt.Errorf("--data %s: %w", dir, err)
	}
	return found, nil
}
