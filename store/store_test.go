package store

import (
	"bufio"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"comanda/schema"
)

// Tests that need another process start this test binary again: childEnv names the part that it plays.
const childEnv = "COMANDA_STORE_TEST_CHILD"

// children are the parts. They read their arguments from the command line and what the test says from in.
var children = map[string]func(args []string, in *bufio.Scanner, out io.Writer) error{
	"open": childOpen, "hold": childHold, "drain": childDrain, "arrive": childArrive, "modes": childModes, "put": childPut, "count": childCount, "fuse": childFUSE,
}

func TestMain(m *testing.M) {
	part := os.Getenv(childEnv)
	if part == "" {
		os.Exit(m.Run())
	}
	if err := children[part](os.Args[1:], bufio.NewScanner(os.Stdin), os.Stdout); err != nil {
		fmt.Printf("error %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is another process that plays a part.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func spawn(t *testing.T, part string, args ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0], args...)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+part)
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // takes a stopped process too
		_ = c.cmd.Wait()
	})
	return c
}

func (c *child) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatalf("talk to the child: %v", err)
	}
}

// hear returns the words of the next line; a child that says "error …" or nothing fails the test.
func (c *child) hear() []string {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatalf("the child said nothing more: %v", c.out.Err())
	}
	words := strings.Fields(c.out.Text())
	if len(words) == 0 || words[0] == "error" {
		c.t.Fatalf("the child said %q", c.out.Text())
	}
	return words
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// kill sends SIGKILL and returns when the process is gone, and its locks with it.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// waitFor polls for a condition that another process brings about.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// fullRunOnly skips what has one goroutine, and nothing for the race detector to find, in the short run.
func fullRunOnly(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine and much to do: only in the full run")
	}
}

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "comanda.db") }

// open opens a file for the length of the test, with few readers so that it is quick.
func open(t testing.TB, path string, opt Options) *DB {
	t.Helper()
	if opt.Readers == 0 {
		opt.Readers = 2
	}
	db, err := Open(t.Context(), path, opt)
	if err != nil {
		t.Fatalf("Open(%s): %v", path, err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func openNew(t testing.TB) *DB {
	t.Helper()
	return open(t, newPath(t), Options{})
}

// raw opens the file as any other client would, with foreign keys on and one connection.
func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driverName, fileURI(path, map[string][]string{"_foreign_keys": {"ON"}, "_busy_timeout": {"5000"}}))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func mustExec(t testing.TB, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.Exec(text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// update runs fn in a write transaction that must succeed.
func update(t testing.TB, db *DB, fn func(*Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), fn); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

// put puts n tickets of one effect type on the rail and returns their ids.
func put(t testing.TB, db *DB, effect string, n int) []int64 {
	t.Helper()
	first := number(t, db, `SELECT coalesce(max(id), 0) FROM outbox`)
	update(t, db, func(tx *Tx) error {
		for i := range n {
			order := fmt.Sprintf("ORD-%s-%d", effect, first+int64(i)+1)
			if _, err := tx.InsertTicket(NewTicket{OrderID: order, EffectType: effect, Payload: `{}`, Key: Key(effect, order)}); err != nil {
				return err
			}
		}
		return nil
	})
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = first + int64(i) + 1
	}
	return ids
}

// claim claims for a holder that has no lock file; r's zero fields are filled in.
func claim(t testing.TB, db *DB, r ClaimRequest) Claim {
	t.Helper()
	if r.Limit == 0 {
		r.Limit = 100
	}
	if r.Lease == 0 {
		r.Lease = time.Minute
	}
	if r.Holder == "" {
		r.Holder = "tester"
	}
	c, err := db.Claim(t.Context(), r)
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	return c
}

// settle carries out a local effect and settles its ticket.
func settle(tx *Tx, token string, t Ticket) (Settled, error) {
	settled, err := tx.SettleLocal(token, []Ticket{t}, LedgerRefund)
	return settled[t.ID], err
}

func idsOf(tickets []Ticket) []int64 {
	ids := []int64{}
	for _, t := range tickets {
		ids = append(ids, t.ID)
	}
	return ids
}

func wantIDs(t testing.TB, what string, got []Ticket, want ...int64) {
	t.Helper()
	if ids := idsOf(got); !slices.Equal(ids, want) {
		t.Errorf("%s: got tickets %v, want %v", what, ids, want)
	}
}

func ticket(t testing.TB, db *DB, id int64) (one Ticket) {
	t.Helper()
	err := db.View(t.Context(), func(tx *Tx) (err error) {
		one, err = tx.Ticket(id)
		return err
	})
	if err != nil {
		t.Fatalf("ticket %d: %v", id, err)
	}
	return one
}

// number reads one integer.
func number(t testing.TB, db *DB, text string, args ...any) int64 {
	t.Helper()
	a, err := db.Query(t.Context(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	n, ok := a.Rows[0][0].(int64)
	if !ok {
		t.Fatalf("%s: got %v", text, a.Rows)
	}
	return n
}

func wantNumber(t testing.TB, db *DB, want int64, text string, args ...any) {
	t.Helper()
	if got := number(t, db, text, args...); got != want {
		t.Errorf("%s: got %d, want %d", text, got, want)
	}
}

// dump is every row of the tables that say what happened, as text: equal dumps, nothing changed.
func dump(t testing.TB, db *DB) string {
	t.Helper()
	var b strings.Builder
	for _, table := range []string{"outbox", "ledger", "external_effects_log", "events", "orders", "attempts", "credit_limits", "operator_log"} {
		a, err := db.Query(t.Context(), "SELECT * FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, table, a.Rows)
	}
	return b.String()
}

// steps are the schema's steps.
func steps(t testing.TB) []schema.Step {
	t.Helper()
	s, err := schema.Steps()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
