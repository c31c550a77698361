package cli

import (
	"runtime"
	"runtime/debug"

	"comanda/store"
)

// ReadVersion is what this program was built from.
func ReadVersion() Version {
	v := Version{Version: "dev", Commit: "unknown", Go: runtime.Version(), SQLite: "unknown"}
	if engine, err := store.EngineVersion(); err == nil {
		v.SQLite = engine
	}
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

// Line is the version in one line.
func (v Version) Line() string {
	commit := v.Commit
	if len(commit) > 12 {
		commit = commit[:12]
	}
	return "comanda " + v.Version + " (" + commit + ")"
}
