package memory

import (
	"runtime/debug"
	"testing"
	"testing/fstest"
)

// files returns a file system with these files, by path.
func files(of map[string]string) fstest.MapFS {
	system := fstest.MapFS{}
	for name, text := range of {
		system[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return system
}

func TestCgroupMemory(t *testing.T) {
	const own, v2, v1 = "proc/self/cgroup", "sys/fs/cgroup/", "sys/fs/cgroup/memory/"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no groups", nil, 0},
		{"unbounded", map[string]string{own: "0::/a\n", v2 + "a/memory.max": "max\n"}, 0},
		{"the own", map[string]string{own: "0::/a/b\n", v2 + "a/b/memory.max": "268435456\n"}, 256 << 20},
		{
			"the one around it",
			map[string]string{
				own: "0::/a/b\n", v2 + "a/b/memory.max": "536870912\n", v2 + "a/memory.max": "268435456\n",
			},
			256 << 20,
		},
		{"a container that is its root", map[string]string{own: "0::/\n", v2 + "memory.max": "134217728"}, 128 << 20},
		{
			"a container with the path outside",
			map[string]string{own: "0::/docker/17\n", v2 + "memory.max": "134217728\n"},
			128 << 20,
		},
		{
			"version 1",
			map[string]string{
				own:                                "9:cpu,cpuacct:/a\n8:memory:/a\n1:name=systemd:/a\n",
				v1 + "a/memory.limit_in_bytes":     "268435456\n",
				v1 + "memory.limit_in_bytes":       "9223372036854771712\n",
				"sys/fs/cgroup/cpu/a/memory.max":   "1",
				"sys/fs/cgroup/memory/a/something": "2",
			},
			256 << 20,
		},
		{"nonsense", map[string]string{own: "\n0:\n0::\n::::\n0::/../../etc\n", v2 + "etc/memory.max": "-5"}, 0},
		{"no number", map[string]string{own: "0::/a\n", v2 + "a/memory.max": "99999999999999999999999\n"}, 0},
	} {
		if got := Cgroup(files(c.files)); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// The limit is GOMEMLIMIT or that of the container, never one that a server in the process has set.
func TestProcessMemory(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	small := files(map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n"})
	for _, c := range []struct {
		system fstest.MapFS
		limit  string
		want   int64
	}{
		{files(nil), "", 0},
		{small, "", 256 << 20},
		{files(nil), "64MiB", 64 << 20},
		{small, "64MiB", 64 << 20},
	} {
		t.Setenv("GOMEMLIMIT", c.limit)
		if got := Limit(c.system); got != c.want {
			t.Errorf("GOMEMLIMIT=%s: %d, want %d", c.limit, got, c.want)
		}
	}
}
