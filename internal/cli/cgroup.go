package cli

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// unboundedFrom is beyond what any machine has: a group of version 1 without a limit says 2^63, less a page.
const unboundedFrom = 1 << 50

// cgroupMemory returns how many bytes the control group of this process may take, or one that it is in; 0 if none is
// bounded. system is the root of the file system.
func cgroupMemory(system fs.FS) (least int64) {
	groups, err := fs.ReadFile(system, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		root, file := "sys/fs/cgroup", "memory.max"
		switch {
		case strings.Contains(","+parts[1]+",", ",memory,"):
			root, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case parts[1] != "":
			continue
		}
		// In a container the path may be that outside of it, of which only the root is there.
		for dir := path.Join("/", parts[2]); ; dir = path.Dir(dir) {
			text, _ := fs.ReadFile(system, path.Join(root, dir, file))
			n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && n > 0 && n < unboundedFrom && (least == 0 || n < least) {
				least = n
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// processMemory returns how many bytes this process may take: GOMEMLIMIT, or what its control group may, if that is
// less; 0 if nothing bounds it.
func processMemory(system fs.FS) int64 {
	limit := cgroupMemory(system)
	if os.Getenv("GOMEMLIMIT") == "" { // then the collector's limit is one that a server of this process set itself
		return limit
	}
	if set := debug.SetMemoryLimit(-1); set < math.MaxInt64 && (limit == 0 || set < limit) {
		return set
	}
	return limit
}

// collectBefore has garbage collected more often towards three quarters of a limit of memory; 0 is none. The runtime
// does not look at control groups. GOMEMLIMIT goes before.
func collectBefore(limit int64) {
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 4 * 3)
	}
}
