package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func doctored(t *testing.T, db *DB) map[string]Check {
	t.Helper()
	checks, err := db.Doctor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Check{}
	for _, c := range checks {
		if _, twice := byName[c.Name]; twice {
			t.Errorf("two checks are named %q", c.Name)
		}
		byName[c.Name] = c
	}
	return byName
}

func patient(t *testing.T) *DB {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), filepath.Join(dir, "patient.db"), Options{Readers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// byHand runs statements the way another client would.
func byHand(t *testing.T, path string, statements ...string) {
	t.Helper()
	other, err := sql.Open(driverName, path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, s := range statements {
		if _, err := other.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

const insertTicket = `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key) VALUES ('ORD-1', 'issue_refund', '{}', 'refund:ORD-1')`

func TestDoctorFindsAHealthyFileHealthy(t *testing.T) {
	for name, c := range doctored(t, patient(t)) {
		if c.Level == LevelWrong || c.Level == LevelWarning && name != "clock" && name != "sync" && name != "filesystem" && name != "disk space" {
			t.Errorf("%s is %s: %s", name, c.Level, c.Answer)
		}
		if strings.HasPrefix(name, "invariant") && (c.SQL == "" || c.Answer != "no row") {
			t.Errorf("%s: SQL %q, answer %q", name, c.SQL, c.Answer)
		}
	}
}

func TestDoctorSeesEachInvariantViolated(t *testing.T) {
	const effect = `INSERT INTO external_effects_log (effect_key, effect_type, order_id) VALUES ('refund:ORD-2041', 'refund', 'ORD-2041')`
	for _, violation := range []struct {
		name, check, shown string
		statements         []string
	}{
		{"an effect twice", "invariant: no effect twice", "refund:ORD-2041 2", []string{effect, effect}},
		{"done without a ledger entry", "invariant: what is done is in the ledger", "1", []string{
			insertTicket, `UPDATE outbox SET status = 'done', processed_at = 1`}},
		{"a local entry that never went out", "invariant: what is in the ledger as local went out", "refund:ORD-9", []string{
			`INSERT INTO ledger (effect_key, order_id, effect_type, status, how) VALUES ('refund:ORD-9', 'ORD-9', 'refund', 'done', 'local')`}},
		{"an order both ways", "invariant: an order is refunded or delivered, never both", "ORD-9", []string{
			`INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES ('a', 'ORD-9', 'refund', 'done'), ('b', 'ORD-9', 'inventory', 'done')`}},
		{"a count that is wrong", "invariant: the counts are those of the tickets", "refund done 3", []string{
			`INSERT INTO ticket_counts (effect_type, status, n) VALUES ('refund', 'done', 3)`}},
		{"an attempt of no ticket", "foreign keys", "attempts", []string{
			`PRAGMA foreign_keys = OFF; INSERT INTO attempts (ticket_id, claim_token, begun_at) VALUES (77, 'x', 1)`}},
	} {
		t.Run(violation.name, func(t *testing.T) {
			db := patient(t)
			byHand(t, db.Path(), violation.statements...)
			for name, c := range doctored(t, db) {
				if wrong := c.Level == LevelWrong; wrong != (name == violation.check) {
					t.Errorf("%s is %s: %s", name, c.Level, c.Answer)
				}
				if name == violation.check && !strings.Contains(c.Answer, violation.shown) {
					t.Errorf("the answer does not name the row %s: %s", violation.shown, c.Answer)
				}
			}
		})
	}
}

func TestDoctorWarnsOfWhatWaits(t *testing.T) {
	db := patient(t)
	byHand(t, db.Path(), insertTicket,
		`INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, processed_at) VALUES ('O', 'x', '{}', 'k1', 'dead', 1)`,
		`INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status) VALUES ('O', 'x', '{}', 'k2', 'review')`,
		`INSERT INTO refused_bodies (received_at, problem, detail, body, body_bytes) VALUES (1, 'bad-json', 'x', X'00', 1)`,
		`INSERT INTO events (event_id, order_id, body, received_at, differs) VALUES ('E', 'O', X'7B7D', 1, '["amount"]')`,
		`UPDATE relay_state SET paused = 1`)
	checks := doctored(t, db)
	for _, name := range []string{"tickets waiting", "tickets dead", "tickets in review", "bodies refused", "events that differ from their order's decision", "relays paused"} {
		if c := checks[name]; c.Level != LevelWarning || c.Answer != "1" || c.Detail == "" {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := checks["measure: tickets that are not done"]; c.Answer != "3" || c.Level != LevelOK {
		t.Errorf("the measure: %+v", c)
	}
}

func claimOne(t *testing.T, db *DB, holder string) Claim {
	t.Helper()
	byHand(t, db.Path(), insertTicket)
	claim, err := db.Claim(t.Context(), ClaimRequest{Limit: 1, Lease: time.Hour, Holder: holder})
	if err != nil || len(claim.Tickets) != 1 {
		t.Fatalf("claimed %d tickets: %v", len(claim.Tickets), err)
	}
	return claim
}

func TestDoctorSeesALivingHolderAndLetsItBe(t *testing.T) {
	db := patient(t)
	h, err := db.NewHolder(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	claim := claimOne(t, db, h.ID)
	if c := doctored(t, db)["lease "+claim.Token]; c.Level != LevelOK || !strings.Contains(c.Answer, "alive") {
		t.Errorf("a living holder: %+v", c)
	}
	if void, err := db.NewWatch("another").Void(t.Context()); err != nil || len(void) != 0 {
		t.Errorf("after the doctor %d leases are void: %v", len(void), err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

func TestDoctorSeesADeadLeaseAndRemovesNothing(t *testing.T) {
	db := patient(t)
	claim := claimOne(t, db, "00000000000000aa")
	if c := doctored(t, db)["lease "+claim.Token]; c.Level != LevelWarning || !strings.Contains(c.Answer, "dead") {
		t.Errorf("a holder without a lock file: %+v", c)
	}
	lock := db.lockPath("00000000000000aa")
	if _, err := os.Stat(lock); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the doctor made a lock file: %v", err)
	}
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := doctored(t, db)["lease "+claim.Token]; c.Level != LevelWarning || !strings.Contains(c.Answer, "dead") {
		t.Errorf("a holder whose lock is free: %+v", c)
	}
	if _, err := os.Stat(lock); err != nil {
		t.Errorf("the doctor removed a lock file: %v", err)
	}
	void, err := db.NewWatch("another").Void(t.Context())
	if err != nil || len(void) != 1 || !void[0].Dead {
		t.Errorf("after the doctor a relay finds %+v: %v", void, err)
	}
}

func TestDoctorSeesALeaseThatNobodyCanFree(t *testing.T) {
	db := patient(t)
	claim := claimOne(t, db, "00000000000000bb")
	if err := os.Mkdir(db.lockPath("00000000000000bb"), 0o700); err != nil {
		t.Fatal(err)
	}
	if c := doctored(t, db)["lease "+claim.Token]; c.Level != LevelWrong || !strings.Contains(c.Answer, "a lease nobody can free") {
		t.Errorf("a lock file that can't be opened: %+v", c)
	}
}

func TestDoctorSeesAClockBehindTheNewestRow(t *testing.T) {
	var behind time.Duration
	path := filepath.Join(t.TempDir(), "clock.db")
	db, err := Open(t.Context(), path, Options{Readers: 1, Now: func() time.Time { return time.Now().Add(-behind) }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if c := doctored(t, db)["clock against the newest row"]; c.Level != LevelOK || c.Answer != "no row yet" {
		t.Errorf("an empty file: %+v", c)
	}
	byHand(t, path, insertTicket)
	if c := doctored(t, db)["clock against the newest row"]; c.Level != LevelOK {
		t.Errorf("a clock that is right: %+v", c)
	}
	behind = time.Hour
	if c := doctored(t, db)["clock against the newest row"]; c.Level != LevelWarning || !strings.Contains(c.Detail, "stands 59m") && !strings.Contains(c.Detail, "stands 1h0m") {
		t.Errorf("a clock an hour behind: %+v", c)
	}
}

func TestDoctorTellsADamagedFileFromAnothersFile(t *testing.T) {
	dir := t.TempDir()
	ours := filepath.Join(dir, "ours.db")
	db, err := Open(t.Context(), ours, Options{Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		byHand(t, ours, `INSERT INTO operator_log (at, who, action) VALUES (1, 'x', 'y'||hex(randomblob(200)))`)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(ours) // closed: no process has it open
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(from, to int) string {
		path := filepath.Join(t.TempDir(), "damaged.db")
		cut := append([]byte(nil), whole...)
		for i := from; i < min(to, len(cut)); i++ {
			cut[i] ^= 0xA5
		}
		if err := os.WriteFile(path, cut, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, path := range map[string]string{
		"header": damaged(0, 16), "schema": damaged(100, 4096), "everything but the schema": damaged(4096, len(whole)),
	} {
		checks, err := Examine(t.Context(), path, Options{Readers: 1, MustExist: true})
		wrong := 0
		for _, c := range checks {
			if c.Level == LevelWrong {
				wrong++
			}
		}
		if err != nil || wrong == 0 {
			t.Errorf("damaged %s: %d checks, none wrong: %v", name, len(checks), err)
		}
	}
	foreign := filepath.Join(dir, "foreign.db")
	byHand(t, foreign, `CREATE TABLE theirs (a)`)
	for name, path := range map[string]string{"foreign": foreign, "missing": filepath.Join(dir, "none.db"), "directory": dir} {
		if checks, err := Examine(t.Context(), path, Options{Readers: 1, MustExist: true}); !errors.Is(err, ErrRefused) {
			t.Errorf("a %s file: %v, %v", name, checks, err)
		}
	}
}

// A newer file that is in use has its mark in the -wal alone: it is refused like any other newer one, and nobody is
// told to restore it from a backup.
func TestDoctorRefusesANewerFileInUse(t *testing.T) {
	db := patient(t)
	byHand(t, db.Path(), `PRAGMA user_version = 99`)
	checks, err := Examine(t.Context(), db.Path(), Options{Readers: 1, MustExist: true})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "newer comanda") {
		t.Errorf("%v, %v", checks, err)
	}
}

func TestDoctorJudgesDiskAndClock(t *testing.T) {
	for _, j := range []struct {
		got  Check
		want Level
	}{
		{judgeSpace(Space{Free: 16<<20 - 1, Total: 1 << 20}), LevelWrong}, {judgeSpace(Space{Free: 16 << 20, Total: 1 << 30, Used: 98}), LevelWarning}, {judgeSpace(Space{Free: 1 << 29, Total: 1 << 30, Used: 50}), LevelOK},
		{judgeFilesystem("ext4"), LevelOK}, {judgeFilesystem("FAT"), LevelWarning}, {judgeFilesystem("exFAT"), LevelWarning}, {judgeFilesystem("tmpfs"), LevelWarning}, {judgeFilesystem("FUSE"), LevelWarning},
		{judgeSync(19 * time.Microsecond), LevelWarning}, {judgeSync(20 * time.Microsecond), LevelOK},
		{judgeWAL(128 << 20), LevelOK}, {judgeWAL(128<<20 + 1), LevelWarning},
		{judgeClock(true, nil), LevelOK}, {judgeClock(false, nil), LevelWarning}, {judgeClock(false, errOfTest), LevelWarning},
	} {
		if j.got.Level != j.want {
			t.Errorf("%s %s is %s, not %s", j.got.Name, j.got.Answer, j.got.Level, j.want)
		}
	}
}

var errOfTest = errors.New("of the test")

func TestDoctorLeavesNothingBehindAndStopsWhenAsked(t *testing.T) {
	db := patient(t)
	before, err := os.ReadDir(filepath.Dir(db.Path()))
	if err != nil {
		t.Fatal(err)
	}
	doctored(t, db)
	after, err := os.ReadDir(filepath.Dir(db.Path()))
	if err != nil || len(after) != len(before) {
		t.Errorf("%d files before the doctor, %d after: %v", len(before), len(after), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := db.Doctor(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestDoctorSeesAMissingTable(t *testing.T) {
	db := openNew(t)
	if got := checkNamed(t, db, "schema"); got.Level != LevelOK {
		t.Fatalf("a whole schema is %+v", got)
	}
	update(t, db, func(tx *Tx) error {
		_, err := tx.exec(`DROP TABLE attempts`)
		return err
	})
	if got := checkNamed(t, db, "schema"); got.Level != LevelWrong || !strings.Contains(got.Detail, "attempts") {
		t.Errorf("without a table the schema is %+v", got)
	}
}

func checkNamed(t *testing.T, db *DB, name string) Check {
	t.Helper()
	checks, err := db.Doctor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no check %q", name)
	return Check{}
}
