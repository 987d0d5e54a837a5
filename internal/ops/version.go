package ops

import "runtime/debug"

// linkedVersion is set by the linker: `make build` passes what git describe says.
var linkedVersion string

// Version is the version of this program, such as "v1.2.3", "v1.2.3-4-gabcdef0-dirty", or "devel" when nothing is
// known.
var Version = chooseVersion(linkedVersion, debug.ReadBuildInfo)

// chooseVersion falls back to what the go command recorded, which is there for `go install ...@v1.2.3` and for builds
// in a checkout, where make had no part in it.
func chooseVersion(linked string, read func() (*debug.BuildInfo, bool)) string {
	if linked != "" {
		return linked
	}
	info, ok := read()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return versionFromVCS(info.Settings)
}

func versionFromVCS(settings []debug.BuildSetting) string {
	var revision, dirty string
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	if revision == "" {
		return "devel"
	}
	return revision + dirty
}
