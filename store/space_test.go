package store

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A full disk stops what can be done without and nothing else; when there is room all goes on by itself.
func TestTightDiskStopsWhatCanWait(t *testing.T) {
	used := 97
	db := open(t, newPath(t), Options{Space: func(string) (Space, error) { return Space{Used: used}, nil }})
	look := func(percent int, tight bool) {
		t.Helper()
		used = percent
		if s, err := db.LookAtSpace(); err != nil || s.Used != percent || db.Tight() != tight {
			t.Fatalf("at %d %%: %+v %v tight %v", percent, s, err, db.Tight())
		}
	}
	pass := func(want int64) {
		t.Helper()
		claim(t, db, ClaimRequest{Holder: "h"})
		wantNumber(t, db, want, `SELECT count(*) FROM relays`)
	}
	look(98, true)
	pass(0)
	put(t, db, TicketIssueRefund, 1) // orders and tickets are what the disk is for
	c := claim(t, db, ClaimRequest{Holder: "h"})
	if ends := settleAll(t, db, c, c.Tickets...); len(ends) != 1 || ends[0] != Done {
		t.Errorf("a ticket ended %v", ends)
	}
	look(97, false)
	pass(1)
}

func TestSpaceInWords(t *testing.T) {
	for _, c := range []struct {
		s     Space
		want  string
		level Level
	}{
		{Space{Free: 1 << 30, Total: 1 << 40, Used: 94, UsedFiles: 94}, "", LevelOK},
		{Space{Free: 1 << 30, Total: 1 << 40, Used: 95}, "95 % of the disk is used: make room", LevelWarning},
		{Space{Free: 1 << 30, Total: 1 << 40, Used: 98}, "98 % of the disk is used: orders are taken while there is room", LevelWarning},
		{Space{Free: 1 << 30, Total: 1 << 40, UsedFiles: 95}, "95 % of the disk's files are used", LevelWarning},
		{Space{Free: LeastFree - 1, Total: 1 << 40, Used: 99}, "there is no room to take orders", LevelWrong},
	} {
		got := judgeSpace(c.s)
		if got.Level != c.level || !strings.HasPrefix(got.Detail, c.want) || c.want == "" && got.Detail != "" {
			t.Errorf("%+v: %+v", c.s, got)
		}
	}
	if part(95, 5) != 95 || part(951, 49) != 96 || part(0, 0) != 0 || part(0, 7) != 0 {
		t.Error("parts are wrong")
	}
}

// A small filesystem of its own is filled for real: each mark is seen where it is passed, and left again.
func TestSpaceOfARealDisk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("how full a disk is can only be told on Linux")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "comanda-test", dir).CombinedOutput(); err != nil {
		t.Skipf("no filesystem can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	db := open(t, filepath.Join(dir, "t.db"), Options{})
	filler := filepath.Join(dir, "filler")
	fill := func(percent int) Space {
		t.Helper()
		s, err := db.LookAtSpace()
		if err != nil {
			t.Fatal(err)
		}
		body := int64(0)
		if st, err := os.Stat(filler); err == nil {
			body = st.Size()
		}
		body = max(0, body+int64(s.Free)-int64(s.Total)*int64(100-percent)/100)
		if err := os.WriteFile(filler, make([]byte, body), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err = db.LookAtSpace(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		percent int
		words   bool
		tight   bool
	}{{90, false, false}, {96, true, false}, {99, true, true}, {50, false, false}} {
		s := fill(c.percent)
		if s.Used < c.percent || s.Used > c.percent+1 || (s.Words() != "") != c.words || db.Tight() != c.tight {
			t.Errorf("filled to %d %%: %+v %q tight %v", c.percent, s, s.Words(), db.Tight())
		}
	}
}
