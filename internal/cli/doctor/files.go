package doctor

import (
	"context"
	"errors"
	"io/fs"

	"github.com/dustin/go-humanize"

	"github.com/penstock/penstock/internal/cli/show"
)

const (
	// littleDisk is roughly what an embedded store, its overflow and a copy of the file need.
	littleDisk = 1 << 30
	// noDisk is so little that any commit may fail.
	noDisk = 100 << 20
)

// disk checks the free space of an embedded store.
func (v *visit) disk(context.Context) {
	if v.Disk == "" {
		return
	}
	free, err := v.Free(v.Disk)
	switch room := humanize.IBytes(free); {
	case err != nil:
		v.wrong("df -h "+show.Quoted(v.Disk), "%v", err)
	case free < noDisk:
		v.wrong("df -h "+show.Quoted(v.Disk), "only %s is free on the disk of %s: jobs will be refused", room, v.Disk)
	case free < littleDisk:
		v.warn("df -h "+show.Quoted(v.Disk), "only %s is free on the disk of %s", room, v.Disk)
	default:
		v.ok("%s is free on the disk of %s", room, v.Disk)
	}
}

// files checks that files are private.
func (v *visit) files(context.Context) {
	present := 0
	for _, f := range v.Files {
		err := f.Check(f.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if present++; err != nil {
			v.wrong(f.Fix, "%v", err)
		}
	}
	if present > 0 && v.silent() {
		v.ok("%s readable only by the owner", show.Count(int64(present), "file"))
	}
}
