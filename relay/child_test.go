package relay

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"comanda/store"
)

// outside runs a statement as another client of the file would.
func outside(t *testing.T, db *store.DB, text string) {
	t.Helper()
	pool, err := sql.Open("sqlite", "file:"+db.Path()+"?_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(text); err != nil {
		t.Fatal(err)
	}
}

// deaths are the ways in which the ticket of O-7 kills the process that carries it out.
var deaths = map[string]func(){
	"exits": func() { os.Exit(7) },
	"killed": func() {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {}
	},
	"panics": func() { go panic("not in the worker's own goroutine"); select {} },
}

// childRelay drains the file at path in a process of its own; the ticket of O-7 kills that process.
func childRelay(path string) int {
	ctx := context.Background()
	db, err := store.Open(ctx, path, store.Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	holder, err := db.NewHolder(ctx, 4)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	r := NewRunner(Options{DB: db, Holder: holder, Workers: 4, Effects: map[string]Effect{"test": effect{"test", func(_ context.Context, w store.Work) error {
		if w.OrderID == "O-7" {
			deaths[os.Getenv("RELAY_TEST_DEATH")]()
		}
		return nil
	}}}})
	for {
		tally, err := r.RunOnce(ctx)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		if tally.Claimed == 0 {
			return 0
		}
	}
}

// A ticket that kills the process, however it does, is set aside after five crashes that were surely its own; the
// others are carried out in the meantime.
func TestTicketThatKillsTheProcess(t *testing.T) {
	for death := range deaths {
		t.Run(death, func(t *testing.T) { dieOf(t, death) })
	}
}

func dieOf(t *testing.T, death string) {
	db := openFile(t)
	put(t, db, 40)
	for crashes := 0; ; crashes++ {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "RELAY_TEST_CHILD="+db.Path(), "RELAY_TEST_DEATH="+death)
		out, err := child.CombinedOutput()
		if err == nil {
			break
		}
		if code := child.ProcessState.ExitCode(); code == 1 {
			t.Fatalf("child ended with %d: %s", code, out)
		}
		if crashes > 20 {
			t.Fatalf("the ticket is never parked: %+v %s", ticket(t, db, 7), out)
		}
	}
	if got := ticket(t, db, 7); got.Status != "review" || got.Crashes != 5 || !strings.Contains(got.Detail, "crashes the process") {
		t.Errorf("the ticket that kills is %s with %d crashes, %q; want review with 5", got.Status, got.Crashes, got.Detail)
	}
	if c := counts(t, db); c.Done != 39 || c.Review != 1 {
		t.Errorf("%+v, want 39 done and 1 in review", c)
	}
	for id := int64(1); id <= 40; id++ { // an innocent one is alone after two charges and then cleared
		if got := ticket(t, db, id); id != 7 && got.Crashes > 2 {
			t.Errorf("ticket %d was charged with %d crashes", id, got.Crashes)
		}
	}
	if n := effectsOf(t, db, "order_id = 'O-7'"); n != 0 {
		t.Errorf("%d effects of the ticket that never ended", n)
	}
}

// holdFile takes the file's write lock as another client would, until release is called.
func holdFile(t *testing.T, db *store.DB) (release func()) {
	t.Helper()
	pool, err := sql.Open("sqlite", "file:"+db.Path()+"?_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	pool.SetMaxOpenConns(1)
	if _, err := pool.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := pool.Exec(`ROLLBACK`); err != nil {
			t.Fatal(err)
		}
	}
}
