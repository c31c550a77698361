package relay

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
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
			os.Exit(7)
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

func TestTicketThatKillsTheProcess(t *testing.T) {
	db := openFile(t)
	put(t, db, 40)
	crashes := 0
	for {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "RELAY_TEST_CHILD="+db.Path())
		out, err := child.CombinedOutput()
		if err == nil {
			break
		}
		if code := child.ProcessState.ExitCode(); code != 7 {
			t.Fatalf("child ended with %d: %s", code, out)
		}
		if crashes++; crashes > 20 {
			t.Fatalf("the ticket is never parked: %+v %s", ticket(t, db, 7), out)
		}
	}
	if got := ticket(t, db, 7); got.Status != "review" || got.Crashes != 5 {
		t.Errorf("the ticket that kills is %s with %d crashes, want review with 5", got.Status, got.Crashes)
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
