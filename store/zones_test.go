package store

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones of the tests, whatever the machine knows
)

// inZones are the tests that are run again where the wall clock is another one.
const inZones = "TestTimesInTheFile|TestDueRules|TestDelayedAndNewGoById|TestWaitsOutlastAClockThatIsSet|TestStepIsFollowedOnce|TestStoryUnderAClockThatGoesBack|TestLeaseIsWatchedForItsWholeLength|TestDoctorSeesAClockBehindTheNewestRow"

// Where the machine stands changes nothing: a quarter of an hour off, the other side of the date line, a zone that is
// called by a number.
func TestElsewhereInTheWorld(t *testing.T) {
	for _, zone := range []string{"Asia/Kathmandu", "America/St_Johns", "Pacific/Apia", "Etc/GMT+12"} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^("+inZones+")$")
			cmd.Env = append(os.Environ(), "TZ="+zone, "STORE_TEST_ZONE="+zone)
			out, err := cmd.CombinedOutput()
			if passed := strings.Count(string(out), "\n--- PASS"); err != nil || passed != strings.Count(inZones, "|")+1 {
				t.Errorf("%d tests passed (%v):\n%s", passed, err, out)
			}
		})
	}
}

const sqlTimeColumns = `SELECT l.name || '.' || c.name FROM pragma_table_list AS l, pragma_table_info(l.name) AS c
	WHERE l.schema = 'main' AND l.type = 'table' AND (c.name IN ('at', 'since') OR c.name LIKE '%\_at' ESCAPE '\')`

// Whatever the zone, every time in the file is a whole number of milliseconds since 1970, and tickets go by id.
func TestTimesInTheFile(t *testing.T) {
	if zone := os.Getenv("STORE_TEST_ZONE"); zone != "" && time.Local.String() != zone {
		t.Fatalf("not in %s but in %s", zone, time.Local)
	}
	db := openNew(t)
	before := time.Now().UnixMilli()
	markRefund(t, db)
	ids := put(t, db, TicketInventorySync, 5)
	waitAll(t, db, 0)
	c := claim(t, db, ClaimRequest{Limit: 3})
	wantIDs(t, "the first", c.Tickets, ids[:3]...)
	settleAll(t, db, c, c.Tickets...)
	update(t, db, func(tx *Tx) error {
		if _, _, err := tx.RaiseAlert(Condition{"review", "1"}); err != nil {
			return err
		}
		return tx.PauseTarget(LedgerRefund, "me", "stocktaking")
	})
	mustExec(t, raw(t, db.Path()), `INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES ('refund:by-hand', 'O', 'refund', 'done')`)
	after := time.Now().UnixMilli()
	filled := 0
	for _, column := range view(t, db, func(tx *Tx) ([]string, error) {
		return collect(tx, sqlTimeColumns, nil, func(scan func(...any) error, s *string) error { return scan(s) })
	}) {
		table, name, _ := strings.Cut(column, ".")
		if name == "due_at" || name == "probe_at" || name == "told_at" { // 0 stands for none
			continue
		}
		filled += int(number(t, db, fmt.Sprintf(`SELECT count(%s) > 0 FROM %s`, name, table)))
		wantNumber(t, db, 0, fmt.Sprintf(`SELECT count(*) FROM %[2]s WHERE %[1]s IS NOT NULL AND (typeof(%[1]s) <> 'integer' OR %[1]s NOT BETWEEN $1 AND $2)`, name, table),
			before-5_000, after+5_000)
	}
	if filled < 10 {
		t.Errorf("only %d time columns had a value", filled)
	}
	wantIDs(t, "the others", claim(t, db, ClaimRequest{Limit: 3}).Tickets, ids[3:]...)
}
