package relay

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"comanda/store"
)

// killed makes the file look as a process leaves it that was killed with n tickets in hand, and arrives as the next.
func killed(t *testing.T, db *store.DB, n int, more ...string) (*store.Holder, store.UncleanStop) {
	t.Helper()
	put(t, db, n)
	outside(t, db, `INSERT INTO processes (holder, pid, started_at) VALUES ('00000000deadbeef', 1, 1)`)
	outside(t, db, `UPDATE outbox SET status = 'processing', attempts = 1, claim_token = 't', lease_holder = '00000000deadbeef', lease_ms = 60000, claimed_at = 1`)
	for _, text := range more {
		outside(t, db, text)
	}
	h, err := db.NewHolder(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	stop, err := db.Arrive(t.Context(), h)
	if err != nil || stop.ID == 0 {
		t.Fatalf("%+v %v", stop, err)
	}
	return h, stop
}

// The report says what was checked: what was in flight is taken up again, nothing that was answered is missing.
func TestBootReport(t *testing.T) {
	db := openFile(t)
	h, stop := killed(t, db, 2)
	r := newRunner(t, db, nil, func(o *Options) { o.Holder = h })
	var log syncBuffer
	b := &BootReport{DB: db, Stop: stop, Log: slog.New(slog.NewTextHandler(&log, nil))}
	ended := make(chan struct{})
	go func() { defer close(ended); b.Run(t.Context()) }()
	if _, err := r.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ended
	if !strings.Contains(log.String(), "after an unclean stop · in flight 2, both resumed · acknowledged lost 0 (checked)") {
		t.Error(log.String())
	}
	if wrong, warnings := b.Troubles(); len(wrong)+len(warnings) != 0 {
		t.Errorf("%v %v", wrong, warnings)
	}
	a, err := db.Query(t.Context(), `SELECT report FROM unclean_stops WHERE checked_at IS NOT NULL`)
	if err != nil || len(a.Rows) != 1 || !strings.Contains(a.Rows[0][0].(string), "both resumed") {
		t.Errorf("%v %v", a.Rows, err)
	}
}

// What is not taken up again is said as that, and so is what is missing.
func TestBootReportOfAWorseKind(t *testing.T) {
	db := openFile(t)
	_, stop := killed(t, db, 3, `INSERT INTO events (event_id, order_id, body, received_at) VALUES ('E', 'O-9', X'', 1)`,
		`INSERT INTO external_effects_log (effect_key, effect_type, order_id) VALUES ('k', 'refund', 'O'), ('k', 'refund', 'O')`)
	outside(t, db, `UPDATE outbox SET status = 'review', claim_token = NULL, lease_holder = NULL, lease_ms = NULL WHERE id = 3`)
	var log syncBuffer
	b := &BootReport{DB: db, Stop: stop, Log: slog.New(slog.NewTextHandler(&log, nil)), Within: time.Millisecond}
	b.Run(t.Context())
	want := "in flight 3, 0 resumed, 1 for a person, 2 waiting for a relay · acknowledged lost AT LEAST 1 (checked) · 1 rows contradict others"
	if !strings.Contains(log.String(), want) || !strings.Contains(log.String(), "level=ERROR") {
		t.Error(log.String())
	}
	w := &Watchdog{DB: db, Log: b.Log, Also: b.Troubles}
	if got := causes(w); got != "?acknowledged orders lost, ?rows contradict each other" {
		t.Errorf("saw %s", got)
	}
	b.seen.Damage = "row 1 missing"
	if got := causes(w); !strings.HasPrefix(got, "(file damaged)") {
		t.Errorf("saw %s", got)
	}
}

// Places that are not in the file are said as that, whatever the rows look like.
func TestBootReportOfMissingPlaces(t *testing.T) {
	b := &BootReport{Stop: store.UncleanStop{ID: 1, Missing: 7}}
	want := "acknowledged lost AT LEAST 7 (checked) · at least 7 places answered for are not in the file"
	if got := b.words(time.Now(), store.Verified{}, 0, 0); !strings.Contains(got, want) {
		t.Error(got)
	}
}

// A stop before the end leaves the check to the next start; after a clean stop there is nothing to say.
func TestBootReportThatIsInterrupted(t *testing.T) {
	db := openFile(t)
	_, stop := killed(t, db, 1)
	var log syncBuffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	(&BootReport{DB: db, Stop: stop, Log: slog.New(slog.NewTextHandler(&log, nil))}).Run(ctx)
	(&BootReport{DB: db, Log: slog.New(slog.NewTextHandler(&log, nil))}).Run(t.Context())
	if log.String() != "" {
		t.Error(log.String())
	}
	a, err := db.Query(t.Context(), `SELECT count(*) FROM unclean_stops WHERE checked_at IS NULL`)
	if err != nil || a.Rows[0][0] != int64(1) {
		t.Errorf("%v %v", a.Rows, err)
	}
}

func TestInFlightInWords(t *testing.T) {
	for _, c := range []struct {
		n, resumed, parked int
		want               string
	}{
		{0, 0, 0, "in flight 0"}, {1, 1, 0, "in flight 1, resumed"}, {2, 2, 0, "in flight 2, both resumed"}, {5, 5, 0, "in flight 5, all resumed"},
		{5, 3, 0, "in flight 5, 3 resumed, 2 waiting for a relay"}, {1, 0, 1, "in flight 1, 0 resumed, 1 for a person"},
	} {
		if got := inFlight(c.n, c.resumed, c.parked); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
