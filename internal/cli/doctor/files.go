package doctor

import (
	"context"
	"errors"
	"io/fs"

	"github.com/dustin/go-humanize"

	"github.com/penstock/penstock/internal/cli/show"
)

const (
	// littleDisk is what an embedded store, its overflow and a copy of the file need on a busy day.
	littleDisk = 1 << 30
	// noDisk is when the next commit may be the last.
	noDisk = 100 << 20
)

// disk says how much room an embedded store has.
func (v *visit) disk(context.Context) {
	if v.Disk == "" {
		return
	}
	free, err := v.Free(v.Disk)
	switch room := humanize.IBytes(free); {
	case err != nil:
		v.wrong("df -h "+show.Quoted(v.Disk), "%v", err)
	case free < noDisk:
		v.wrong("df -h "+show.Quoted(v.Disk), "%s is left on the disk of %s: jobs will be refused", room, v.Disk)
	case free < littleDisk:
		v.warn("df -h "+show.Quoted(v.Disk), "%s is left on the disk of %s", room, v.Disk)
	default:
		v.ok("%s is left on the disk of %s", room, v.Disk)
	}
}

// files says which files others may read or change that are nobody else's.
func (v *visit) files(context.Context) {
	there := 0
	for _, f := range v.Files {
		err := f.Check(f.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if there++; err != nil {
			v.wrong(f.Mend, "%v", err)
		}
	}
	if there > 0 && v.silent() {
		v.ok("%s nobody else may touch", count(there, "file"))
	}
}
