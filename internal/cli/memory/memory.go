// Package memory finds out how much memory this process may use.
package memory

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// unboundedFrom is more than any machine has. A group of cgroup version 1 without a limit reports 2^63 less a page.
const unboundedFrom = 1 << 50

// Cgroup returns the memory limit in bytes of this process's control group or its parents, whichever is least; 0
// without a limit. system is the root of the file system.
func Cgroup(system fs.FS) (least int64) {
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
		// In a container the path may be the host's, and then only the root exists here.
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

// Limit returns the memory limit of this process in bytes: the lesser of GOMEMLIMIT and the limit of its control group;
// 0 without a limit.
func Limit(system fs.FS) int64 {
	limit := Cgroup(system)
	if os.Getenv("GOMEMLIMIT") == "" { // the runtime's limit was set by a server in this process
		return limit
	}
	if set := debug.SetMemoryLimit(-1); set < math.MaxInt64 && (limit == 0 || set < limit) {
		return set
	}
	return limit
}

// CollectBefore makes the garbage collector keep the heap below three quarters of a limit, because the runtime ignores
// control groups. It does nothing for a limit of 0, or if GOMEMLIMIT is set.
func CollectBefore(limit int64) {
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 4 * 3)
	}
}
