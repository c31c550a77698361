package metrics

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"comanda/store"
)

func newMetrics(t *testing.T) (*Metrics, *store.DB) {
	t.Helper()
	m := New(Options{Targets: map[string]string{store.TicketIssueRefund: "refund"}, Names: []string{"refund"},
		Build: prometheus.Labels{"version": "test"}})
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "c.db"), store.Options{Committed: m.Commit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	m.Watch(db)
	return m, db
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func put(t *testing.T, db *store.DB, effectType, key string) {
	t.Helper()
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.InsertTicket(store.NewTicket{OrderID: "O", EffectType: effectType, Payload: "{}", Key: key})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The names and units are as Prometheus wants them, and no series stands twice.
func TestLint(t *testing.T) {
	m, db := newMetrics(t)
	put(t, db, store.TicketIssueRefund, "k1")
	put(t, db, "somebody's own", "k2")
	put(t, db, "another's own", "k3")
	m.Request("/readyz", "GET", 200, "accepted", time.Millisecond)
	m.Turn("refund", "done", time.Millisecond)
	m.Sent("refund", "send", "done", time.Millisecond)
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	text := scrape(t, m)
	for _, want := range []string{
		`comanda_outbox_tickets{state="pending",target="refund"} 1`, `comanda_outbox_tickets{state="pending",target="other"} 2`,
		`comanda_outbox_tickets_created_total 3`, `comanda_file_readable 1`, `comanda_target_state{state="up",target="refund"} 1`,
		`comanda_commit_members_count 3`, `comanda_effect_attempts_total{outcome="done",target="refund"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "somebody") {
		t.Error("an effect type that came by hand is a label")
	}
}

// A scrape that can't read the file answers all the same, and says so.
func TestUnreadable(t *testing.T) {
	m, db := newMetrics(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	text := scrape(t, m)
	if !strings.Contains(text, "comanda_file_readable 0\n") || strings.Contains(text, "comanda_outbox_tickets{") {
		t.Error(text)
	}
}

// The README names the metrics that there are, in its table and in its rules, and no others.
func TestReadmeNamesTheMetrics(t *testing.T) {
	m, db := newMetrics(t)
	m.Request("/readyz", "GET", 200, "accepted", 0)
	m.Turn("refund", "done", 0)
	m.Sent("refund", "send", "done", 0)
	if err := db.Update(t.Context(), (*store.Tx).Touch); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	named := map[string]bool{}
	for _, name := range regexp.MustCompile(`comanda_[a-z_]+`).FindAllString(section, -1) {
		named[name] = true
	}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{"comanda_relay_last_pass_seconds": true, "comanda_clock_synchronised": true} // not of every file and machine
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "comanda_") {
			there[f.GetName()] = true
		}
	}
	for name := range named {
		if !there[name] {
			t.Errorf("%s is in the README and not in a scrape", name)
		}
	}
	for name := range there {
		if !named[name] {
			t.Errorf("%s is not in the README", name)
		}
	}
	if len(named) < 20 || strings.Count(section, "- alert:") != 4 {
		t.Errorf("%d metrics, %d rules", len(named), strings.Count(section, "- alert:"))
	}
}
