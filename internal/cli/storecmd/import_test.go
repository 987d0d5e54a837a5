package storecmd

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/penstock/penstock/internal/cli/archive"
)

// files returns a file system with these files, by path.
func files(of map[string]string) fstest.MapFS {
	system := fstest.MapFS{}
	for name, text := range of {
		system[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return system
}

// An import collects garbage rarely, but before its container is full, unless the environment sets other limits.
func TestImportKnowsItsContainer(t *testing.T) {
	small := files(map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n"})
	for _, c := range []struct {
		system        fstest.MapFS
		gogc, limited string
		percent       int
		limit         int64
	}{
		{files(nil), "", "", 400, math.MaxInt64},
		{small, "", "", 400, 192 << 20},
		{small, "50", "", 77, 192 << 20},
		{small, "", "1GiB", 400, math.MaxInt64},
	} {
		t.Setenv("GOGC", c.gogc)
		t.Setenv("GOMEMLIMIT", c.limited)
		percent, limit := debug.SetGCPercent(77), debug.SetMemoryLimit(math.MaxInt64)
		collectRarely(&archive.Trailer{Queues: 1000}, c.system)
		if got, bound := debug.SetGCPercent(percent), debug.SetMemoryLimit(limit); got != c.percent || bound != c.limit {
			t.Errorf("GOGC=%s GOMEMLIMIT=%s: garbage of %d %%, at most %d bytes, want %d and %d",
				c.gogc, c.limited, got, bound, c.percent, c.limit)
		}
	}
}
