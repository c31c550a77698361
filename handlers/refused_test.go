package handlers

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"comanda/store"
)

// clock is a clock that stands until it is moved.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func TestRefusedBodiesAreKept(t *testing.T) {
	c := &clock{time.Unix(1_800_000_000, 0)}
	r := newClosedRig(t)
	_ = r.srv.Close()
	r.srv.refused = newKeeper(r.db, slog.New(slog.DiscardHandler), c.now)
	newRigOn(t, r)
	r.post(`{`).problem(400, "bad-json")
	r.post(`{{`).problem(400, "bad-json") // within the same second: only in the log
	c.at = c.at.Add(time.Second)
	r.post(strings.Repeat(" ", maxBody)+`{`).problem(413, "too-large")
	c.at = c.at.Add(time.Second)
	r.do("POST", "/webhooks/orders", contractBody, "Content-Type", "text/plain").problem(415, "not-json")
	c.at = c.at.Add(-time.Hour) // a clock that was set back does not stop it
	r.post(body("", "O", "1", oneLine)).problem(422, "invalid-order")
	r.put("/api/customers/C/credit", `{`).problem(400, "bad-json") // not an order
	_ = r.srv.Close()
	a, err := r.db.Query(context.Background(), `SELECT problem, length(body), body_bytes FROM refused_bodies ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		problem    string
		kept, size int64
	}{{"bad-json", 1, 1}, {"too-large", 4096, maxBody + 1}, {"not-json", int64(len(contractBody)), int64(len(contractBody))}, {"invalid-order", 0, 0}}
	if len(a.Rows) != len(want) {
		t.Fatalf("kept %v", a.Rows)
	}
	for i, w := range want {
		if row := a.Rows[i]; row[0] != w.problem || w.size > 0 && (row[1] != w.kept || row[2] != w.size) {
			t.Errorf("row %v, want %v", row, w)
		}
	}
	r.post(`{`).problem(400, "bad-json") // after Close it is refused all the same
}

// However slow the file is, an answer never waits for a refused body, and memory stays bounded.
func TestKeeperNeverWaits(t *testing.T) {
	r := newClosedRig(t)
	other := r.otherClient()
	defer other.Close()
	if _, err := other.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	c := &clock{time.Unix(1_800_000_000, 0)}
	k := &keeper{db: r.db, log: slog.New(slog.DiscardHandler), now: c.now, queue: make(chan store.Refused, refusedQueue), done: make(chan struct{})}
	taken := 0
	for range 100 { // nobody reads the queue yet
		c.at = c.at.Add(time.Minute)
		if k.offer(store.Refused{Problem: "bad-json", Body: []byte("{")}) {
			taken++
		}
	}
	if taken != refusedQueue {
		t.Errorf("%d taken, want %d", taken, refusedQueue)
	}
	go k.run()
	k.close() // the file is busy: they are given up, not waited for
	if k.offer(store.Refused{}) {
		t.Error("taken after close")
	}
	if _, err := other.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if n := r.count(`SELECT count(*) FROM refused_bodies`); n != 0 {
		t.Errorf("%d kept by a file that was busy", n)
	}
}
