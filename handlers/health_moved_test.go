package handlers

import (
	"os"
	"testing"
)

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
