package e2e

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// opening are the functions that open, make, rename or remove a file by its name, or could be used to.
var opening = map[string][]string{
	"os": {"Open", "OpenFile", "OpenInRoot", "OpenRoot", "DirFS", "CopyFS", "ReadFile", "WriteFile", "Create", "CreateTemp", "NewFile",
		"Truncate", "Rename", "Remove", "RemoveAll", "Link", "Symlink", "Chmod", "Chown", "Lchown", "Chtimes", "Mkdir", "MkdirAll", "MkdirTemp"},
	"io/ioutil":              {"ReadFile", "WriteFile", "TempFile", "TempDir"},
	"syscall":                {"Open", "Openat", "Creat", "Truncate", "Rename", "Unlink", "Link", "Symlink", "Mknod", "Syscall", "RawSyscall"},
	"golang.org/x/sys/unix":  {"Open", "Openat", "Openat2", "Creat", "Truncate", "Rename", "Renameat", "Renameat2", "Unlink", "Unlinkat", "Link", "Linkat", "Symlink", "Mknod", "Mknodat", "Syscall", "RawSyscall"},
	"github.com/gofrs/flock": {"New"},
	"database/sql":           {"Open", "OpenDB"},
	"modernc.org/sqlite":     {"NewConnector"},
	"modernc.org/sqlite/lib": {"Xsqlite3_open", "Xsqlite3_open_v2"},
	"modernc.org/libc":       {"Xopen", "Xopen64"},
}

// openingOfVFS are the same of SQLite's own layer over the system, by which a file is opened behind its back.
var openingOfVFS = []string{"FxOpen", "FxDelete"}

// allowed are the places that use one of them, each with what keeps it away from the live file, its -wal and its
// -shm: closing any descriptor of these drops every lock that the process has on them, whoever took it
// (https://sqlite.org/howtocorrupt.html, 2.2), and commits of another process can be lost.
var allowed = map[string]map[string]string{
	"e2e/drill.go": {
		`Drill: os.MkdirTemp(c.Dir, ".comanda-drill-")`: "a new directory",
		"Drill: os.RemoveAll(dir)":                      "the same, after the drill has ended its processes and closed its files",
	},
	"e2e/powercut.go": {
		"newDay: os.Mkdir(dir, 0o700)":                                 "a new directory in the laboratory's own",
		"newDay: os.ReadFile(day.file)":                                "a copy in it, before anybody opens it",
		"end: os.RemoveAll(filepath.Dir(w.file))":                      "the same, closed",
		"examine: os.Mkdir(dir, 0o700)":                                "a new directory in the laboratory's own",
		"examine: os.RemoveAll(dir)":                                   "the same, after its file was closed",
		"examine: os.WriteFile(filepath.Join(dir, name), body, 0o600)": "a file in it, before anybody opens it",
	},
	"e2e/proof_faults.go": {
		"laboratory: os.Mkdir(dir, 0o700)": "a new directory",
	},
	"e2e/keep.go": {
		"keep: os.MkdirAll(dir, 0o700)":                                       "a directory",
		"copyFile: os.Open(from)":                                             "a proof's file, after every process that had it open, this one too, has closed it",
		"copyFile: os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)": "a new file: O_EXCL opens none that is there",
	},
	"e2e/outside.go": {
		`openOutside: sql.Open("sqlite", "file://"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())`: "SQLite itself",
	},
	"e2e/prove.go": {
		`prove: os.MkdirTemp(c.Dir, "comanda-prove-")`: "a new directory",
		"prove: os.RemoveAll(dir)":                     "the same, after the proofs have ended their processes and closed their files",
		"runOne: os.Mkdir(dir, 0o700)":                 "a new directory",
	},
	"e2e/world/world.go": {
		`Open: sql.Open("sqlite", dsn.String())`:                                   "SQLite itself, on the world's own file",
		"makePrivate: os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)": "a new file of the world's own, before SQLite knows it",
	},
	"handlers/certificate/pair.go": {
		"ReadFile: os.Open(path)": "a certificate or its key: a plain file of at most 256 KiB, and of a database's size only when it is named by mistake, before any is open, or replaced by one",
	},
	"handlers/cli/targets_flags.go": {
		"secret: os.ReadFile(path)": "a token, read with the settings, before any file of ours is open",
	},
	"handlers/secret/file.go": {
		"Read: os.Open(path)": "a file of secrets: a plain one of at most 16 KiB, and the smallest database of ours is larger",
	},
	"main.go": {
		`demo: os.MkdirTemp("", "comanda-demo-")`: "a new directory",
		"demo: os.RemoveAll(dir)":                 "the same, after the server has closed its file",
	},
	"store/accounts.go": {
		"hasAccounts: sql.Open(driverName, probeDSN(path, false))": "SQLite itself",
	},
	"store/ballast.go": {
		"reserve: os.OpenFile(b.path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)": "the ballast: its name is the database's with more behind it, and no link is followed",
		"emptyBallast: os.Truncate(path, 0)":                                  "the same, a regular file",
	},
	"store/boot_linux.go": {
		`a declaration: os.ReadFile("/proc/sys/kernel/random/boot_id")`: "the kernel's",
	},
	"store/care.go": {
		"aside: sql.Open(driverName, dsn+db.opt.otherVFS())": "SQLite itself",
	},
	"store/copy.go": {
		"Copy: os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)": "a new file: O_EXCL opens none that is there",
		"Copy: os.Remove(to)": "the same, unfinished",
		"copyOnce: sql.Open(driverName, probeDSN(from, quiet))": "SQLite itself",
	},
	"store/crashdisk/vfs.go": {
		"register: vfs.FxOpen":   "what SQLite itself calls, on a disk of the tests and the drill",
		"register: vfs.FxDelete": "the same",
		"xOpen: vfs.FxOpen":      "the same",
		"xDelete: at[sqlitelib.Tsqlite3_vfs](theirs).FxDelete": "the same",
	},
	"store/doctor_disk.go": {
		`TimeSyncs: os.CreateTemp(dir, ".comanda-sync-*")`: "a new file under a name of its own",
		"TimeSyncs: os.Remove(f.Name())":                   "the same",
		"alive: flock.New(path, flock.SetFlag(os.O_RDWR))": "a relay's lock file: its name is the database's with more behind it",
	},
	"store/doctor_schema.go": {
		`schemaOfSteps: sql.Open(driverName, ":memory:")`: "SQLite itself, in memory",
	},
	"store/fs_linux.go": {
		`mounts: os.ReadFile("/proc/self/mountinfo")`: "the kernel's",
	},
	"store/lease.go": {
		"makeSlots: os.OpenFile(h.path, os.O_RDWR, 0)":            "this relay's own lock file",
		"lockNew: flock.New(h.path, flock.SetPermissions(0o600))": "the same",
		"lockWithSlots: os.Remove(h.path)":                        "the same",
		"Close: os.Remove(h.path)":                                "the same",
		"begunIn: os.ReadFile(path)":                              "a dead relay's lock file",
		"takeIfDead: flock.New(path, flock.SetFlag(os.O_RDWR))":   "another relay's lock file",
		"Done: os.Remove(v.lock.Path())":                          "a dead relay's lock file",
		"sweepLocks: flock.New(name, flock.SetFlag(os.O_RDWR))":   "a lock file: the pattern asks for its ending",
		"sweepLocks: os.Remove(name)":                             "the same",
	},
	"store/migrate.go": {
		"readMark: sql.Open(driverName, dsn)": "SQLite itself",
	},
	"store/modes.go": {
		`newModel: os.CreateTemp(dirOf(path), ".comanda-new-*")`: "a new file under a name of its own",
		"remove: os.Remove(string(m))":                           "the same",
	},
	"store/open.go": {
		"openConn: sql.Open(driverName, dsn)": "SQLite itself",
	},
	"store/remains.go": {
		"openWAL: v.FxOpen": "the -wal, on which SQLite takes no lock: its locks are on the file and on the -shm",
	},
	"store/unclean.go": {
		"witnessIn: os.ReadFile(name)":                          "a lock file: the pattern asks for its ending",
		"lockOfDead: flock.New(name, flock.SetFlag(os.O_RDWR))": "the same",
		"dismiss: os.Truncate(t.lock.Path(), at)":               "the same",
	},
}

// No code opens the live file, its -wal or its -shm but SQLite. Whoever needs another way to a file says here why it
// can't be one of them.
func TestNothingButSQLiteOpensTheFile(t *testing.T) {
	found := map[string][]string{}
	for _, f := range sources(t) {
		found[f.path] = uses(t, f.path, opening, openingOfVFS)
		for _, call := range found[f.path] {
			if allowed[f.path][call] == "" {
				t.Errorf("%s, %s\n\topens, makes or removes a file by its name; if it can never be a live database, its -wal or its -shm, list it in allowed with the reason", f.path, call)
			}
		}
	}
	for file, calls := range allowed {
		for call := range calls {
			if !slices.Contains(found[file], call) {
				t.Errorf("%s, %s\n\tis allowed and not there any more", file, call)
			}
		}
	}
}

// uses are the uses of a package's names in one file, or of these names whatever they belong to, each as "function: call".
func uses(t *testing.T, path string, watched map[string][]string, anywhere []string) []string {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "../"+path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{} // the name of a package in this file → its names
	for _, spec := range f.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		funcs := watched[imported]
		if funcs == nil {
			continue
		}
		name := imported[strings.LastIndexByte(imported, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = funcs
	}
	var all []string
	for _, decl := range f.Decls {
		where := "a declaration"
		if fn, ok := decl.(*ast.FuncDecl); ok {
			where = fn.Name.Name
		}
		calls := map[ast.Node]ast.Node{} // a function's name → its call
		ast.Inspect(decl, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				calls[call.Fun] = call
			}
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, isName := sel.X.(*ast.Ident)
			if !slices.Contains(anywhere, sel.Sel.Name) && (!isName || !slices.Contains(names[pkg.Name], sel.Sel.Name)) {
				return true
			}
			var shown ast.Node = sel
			if call := calls[sel]; call != nil {
				shown = call
			}
			var text bytes.Buffer
			if err := printer.Fprint(&text, fset, shown); err != nil {
				t.Fatal(err)
			}
			all = append(all, where+": "+text.String())
			return true
		})
	}
	return all
}
