package memtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// group is a control group with a memory limit, below this process's own.
type group struct {
	dir     string
	version string
}

// newGroup returns a new group, or nil if that is not possible: it needs root, or a group that this user may divide.
func newGroup(limit int64) *group {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var g *group
		switch {
		case parts[1] == "":
			g = makeGroup("version 2", filepath.Join("/sys/fs/cgroup", parts[2]), limit, "memory.max", "memory.swap.max", "0")
		case parts[1] == "memory":
			g = makeGroup(
				"version 1", filepath.Join("/sys/fs/cgroup/memory", parts[2]), limit, "memory.limit_in_bytes", "memory.swappiness",
				"0",
			)
		}
		if g != nil {
			return g
		}
	}
	return nil
}

func makeGroup(version, parent string, limit int64, limitFile, swapFile, swap string) *group {
	// In version 2, children have a limit only if it is delegated. An error shows below.
	_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+memory"), 0)
	dir, err := os.MkdirTemp(parent, "penstock-memtest-")
	if err != nil {
		return nil
	}
	g := &group{dir: dir, version: version}
	if _, err := os.Stat(filepath.Join(dir, limitFile)); err != nil {
		g.remove()
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, limitFile), []byte(strconv.FormatInt(limit, 10)), 0); err != nil {
		g.remove()
		return nil
	}
	_ = os.WriteFile(filepath.Join(dir, swapFile), []byte(swap), 0) // there may be no swap
	return g
}

func (g *group) procs() string { return filepath.Join(g.dir, "cgroup.procs") }

// remove removes the group after its processes have ended.
func (g *group) remove() {
	if g == nil {
		return
	}
	for range 100 {
		if err := os.Remove(g.dir); err == nil || os.IsNotExist(err) {
			return
		}
		time.Sleep(10 * time.Millisecond) // the kernel still has the process
	}
}
