package ops

import "runtime/debug"

// linkedVersion is set by the linker: `make build` passes the output of git describe.
var linkedVersion string

// Version is the version of this program, for example "v1.2.3" or "v1.2.3-4-gabcdef0-dirty", or "devel" if unknown.
var Version = chooseVersion(linkedVersion, debug.ReadBuildInfo)

// chooseVersion falls back to the version that the go command recorded, for `go install ...@v1.2.3` and for builds
// without make.
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
