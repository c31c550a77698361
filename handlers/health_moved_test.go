package handlers

import (
	"database/sql"
	"fmt"
	"os"
	"testing"
)

// outside runs a statement as another client of the file would.
func (r *rig) outside(text string) {
	r.t.Helper()
	pool, err := sql.Open("sqlite", "file:"+r.db.Path()+"?_busy_timeout=5000")
	if err != nil {
		r.t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(text); err != nil {
		r.t.Fatal(err)
	}
}

// A file that somebody took away: no order is promised, and readiness says so before anybody asks.
func TestMovedFile(t *testing.T) {
	r := newRig(t)
	r.post(contractBody).wants(200)
	if err := os.Rename(r.db.Path(), r.db.Path()+".old"); err != nil {
		t.Fatal(err)
	}
	r.get("/readyz").wants(503, "removed, moved or replaced")
	r.post(body("E2", "O2", "1", oneLine)).problem(503, "not-now")
	if err := os.Rename(r.db.Path()+".old", r.db.Path()); err != nil {
		t.Fatal(err)
	}
	r.post(body("E2", "O2", "1", oneLine)).wants(200, `"accepted"`)
	r.get("/readyz").wants(200)
}

// A file that is taken away is told to nobody who asks again either: what the answer would say may be nowhere.
func TestMovedFileAnswersNoDuplicate(t *testing.T) {
	r := newRig(t)
	r.post(contractBody).wants(200, `"accepted"`)
	r.post(contractBody).wants(200, `"duplicate"`)
	if err := os.Remove(r.db.Path() + "-wal"); err != nil {
		t.Fatal(err)
	}
	r.post(contractBody).problem(503, "not-now")
	r.get("/readyz").wants(503, "removed, moved or replaced")
}

// A newer comanda has brought the file up to date under the running server, which does not know that schema: it
// writes nothing, promises nothing, and says so. The version put back stands for the older file put back.
func TestNewerSchemaUnderTheServer(t *testing.T) {
	r := newRig(t)
	r.post(contractBody).wants(200, `"accepted"`)
	known := r.count(`PRAGMA user_version`)
	r.outside(`PRAGMA user_version = 99`)
	r.get("/readyz").wants(503, "another comanda has brought the file up to date")
	r.post(contractBody).wants(503, `"reason":"schema"`)
	r.post(body("E2", "O2", "1", oneLine)).problem(503, "not-now")
	r.holds(1, 1, 1)
	r.outside(fmt.Sprintf(`PRAGMA user_version = %d`, known))
	r.post(body("E2", "O2", "1", oneLine)).wants(200, `"accepted"`)
	r.get("/readyz").wants(200)
}
