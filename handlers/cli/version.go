package cli

import (
	"runtime"
	"runtime/debug"
	"time"

	"comanda/store"
)

// ReadVersion is what this program was built from.
func ReadVersion() Version {
	v := Version{Version: "dev", Commit: "unknown", Go: runtime.Version(), SQLite: store.EngineVersion}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}

// Built is when the commit was made that this program was built from; the zero time where that is not known.
func Built() time.Time {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return time.Time{}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			at, _ := time.Parse(time.RFC3339, s.Value) // the zero time with an error
			return at
		}
	}
	return time.Time{}
}

// Line is the version in one line.
func (v Version) Line() string {
	commit := v.Commit
	if len(commit) > 12 {
		commit = commit[:12]
	}
	return "comanda " + v.Version + " (" + commit + ")"
}
