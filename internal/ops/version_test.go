package ops

import (
	"runtime/debug"
	"testing"
)

func TestChooseVersion(t *testing.T) {
	checkout := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"},
		{Key: "vcs.modified", Value: "true"},
	}
	for _, tc := range []struct {
		name   string
		linked string
		info   *debug.BuildInfo
		want   string
	}{
		{"what make says wins", "v1.0.0", &debug.BuildInfo{Main: debug.Module{Version: "v2.0.0"}}, "v1.0.0"},
		{"go install", "", &debug.BuildInfo{Main: debug.Module{Version: "v2.0.0"}}, "v2.0.0"},
		{
			"a checkout", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: checkout}, "0123456789ab-dirty",
		},
		{"without version control", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel"},
		{"nothing", "", nil, "devel"},
	} {
		got := chooseVersion(tc.linked, func() (*debug.BuildInfo, bool) { return tc.info, tc.info != nil })
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestVersionIsNeverEmpty(t *testing.T) {
	if Version == "" {
		t.Error("Version is empty")
	}
}
