package store

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// private is the mode of every file that this program makes: orders are nobody else's affair. The
// directory is the operator's; Doctor tells when others may enter it.
const private fs.FileMode = 0o600

// others are the permissions that private files and their directory have none of.
const others fs.FileMode = 0o077

// model is an empty private file whose mode SQLite gives to the file that it makes, whatever the umask
// is; the -wal and the -shm take theirs from the file. So nothing but SQLite ever opens the file itself:
// to close it again would drop the locks that this process has on it
// (https://sqlite.org/howtocorrupt.html, 2.2).
type model string

func newModel(path string) (model, error) {
	f, err := os.CreateTemp(dirOf(path), ".comanda-new-*") // 0600, less what the umask takes
	if err != nil {
		return "", fmt.Errorf("make a file beside it: %w", err)
	}
	m := model(f.Name())
	if err := f.Chmod(private); err != nil && runtime.GOOS != "windows" {
		f.Close()
		return "", fmt.Errorf("set the mode of a file beside it: %w", err)
	}
	return m, f.Close()
}

// dsn is the part of a DSN that names the model; SQLite reads %XX there and takes a plus as it is.
func (m model) dsn() string {
	return "&modeof=" + strings.ReplaceAll(url.QueryEscape(string(m)), "+", "%20")
}

func (m model) remove() error { return os.Remove(string(m)) }

// lookAtModes tells of files that others on this machine may read, and of a directory in which they may
// look around or replace them. It changes nothing: somebody may have meant it so.
func (db *DB) lookAtModes() []Check {
	if runtime.GOOS == "windows" { // its rights are not in a mode
		return nil
	}
	paths := append(db.names(), ballastPath(db.path))
	locks, _ := db.lockFiles() // a pattern of our own is never wrong
	var wide []string
	for _, path := range append(paths, locks...) {
		if st, err := os.Stat(path); err == nil && st.Mode().Perm()&others != 0 {
			wide = append(wide, path)
		}
	}
	dir := dirOf(db.path)
	st, err := os.Stat(dir)
	if err != nil {
		return []Check{judgeFileModes(wide), {Name: "directory's mode", Level: LevelWarning, Answer: err.Error()}}
	}
	return []Check{judgeFileModes(wide), judgeDirMode(dir, st.Mode())}
}

func judgeFileModes(wide []string) Check {
	c := Check{Name: "files' modes", Level: LevelOK, Answer: "only their owner can read them"}
	if len(wide) > 0 {
		var names []string
		for _, path := range wide {
			names = append(names, filepath.Base(path))
		}
		c.Level, c.Answer = LevelWarning, "others can read or write "+strings.Join(names, ", ")
		c.Detail = "`chmod 600` each, unless you meant it so"
	}
	return c
}

func judgeDirMode(dir string, mode fs.FileMode) Check {
	c := Check{Name: "directory's mode", Level: LevelOK, Answer: fmt.Sprintf("%04o", mode.Perm())}
	switch perm := mode.Perm(); {
	case perm&0o022 != 0 && mode&fs.ModeSticky == 0:
		c.Level, c.Detail = LevelWarning, "others can remove or replace the file: `chmod 700 "+dir+"`"
	case perm&others != 0:
		c.Level, c.Detail = LevelWarning, "others can look around in it: `chmod 700 "+dir+"`, unless you meant it so"
	}
	return c
}
