package receipt

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // plays an outside client

	"comanda/store"
)

// noon is when everything of these tests begins.
var noon = time.Date(2026, 12, 2, 12, 0, 0, 0, time.UTC)

// shop is a file whose clock goes on a second with each step.
type shop struct {
	t    *testing.T
	db   *store.DB
	path string
	now  time.Time
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, path: filepath.Join(t.TempDir(), "shop.db"), now: noon}
	s.open()
	return s
}

func (s *shop) open() {
	s.t.Helper()
	db, err := store.Open(s.t.Context(), s.path, store.Options{
		Readers: 1, Synchronous: "OFF", Now: func() time.Time { return s.now },
		Boot: func() (string, int64) { return "boot 1", s.now.Sub(noon).Milliseconds() }, // both clocks go on together
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.db = db
	s.t.Cleanup(func() { _ = db.Close() })
}

// restart is another process, a year later.
func (s *shop) restart() {
	s.t.Helper()
	if err := s.db.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.now = s.now.AddDate(1, 0, 0)
	s.open()
}

func (s *shop) do(fn func(tx *store.Tx) error) {
	s.t.Helper()
	s.now = s.now.Add(time.Second)
	if err := s.db.Update(s.t.Context(), fn); err != nil {
		s.t.Fatal(err)
	}
}

// by is a statement of another client.
func (s *shop) by(text string, args ...any) {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+s.path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(text, args...); err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
}

func (s *shop) story(order string) (story store.Story) {
	s.t.Helper()
	if err := s.db.View(s.t.Context(), func(tx *store.Tx) (err error) { story, err = tx.Story(order); return err }); err != nil {
		s.t.Fatal(err)
	}
	return story
}

// refund records an order without credit.
func (s *shop) refund(order string) {
	s.t.Helper()
	s.record(store.Order{OrderID: order, Decision: store.LedgerRefund, LineItems: store.JSON(`[{"sku":"CF-ARA-500","quantity":12}]`)},
		store.NewTicket{OrderID: order, EffectType: store.TicketIssueRefund, Payload: store.RefundPayload("2154.00", "MXN"), Key: store.Key(store.LedgerRefund, order)})
}

// lines records an order with credit, of three lines.
func (s *shop) lines(order string) {
	s.t.Helper()
	var tickets []store.NewTicket
	for _, sku := range []string{"A", "B", "C:%"} {
		tickets = append(tickets, store.NewTicket{OrderID: order, EffectType: store.TicketInventorySync, Payload: fmt.Sprintf(`{"sku":%q,"quantity":2}`, sku), Key: store.Key(store.LedgerInventory, order, sku)})
	}
	s.record(store.Order{OrderID: order, Decision: store.LedgerInventory, CreditOK: true,
		LineItems: store.JSON(`[{"sku":"A","quantity":2},{"sku":"B","quantity":2},{"sku":"C:%","quantity":2}]`)}, tickets...)
}

func (s *shop) record(o store.Order, tickets ...store.NewTicket) {
	s.t.Helper()
	o.EventID, o.CustomerID, o.Amount, o.Currency = "EVT-"+o.OrderID, "CUS-7", "2154.00", "MXN"
	o.Category, o.Priority, o.CreditSource = "coffee", "normal", "book"
	s.do(func(tx *store.Tx) error {
		_, err := tx.Record(store.Decision{Event: store.Event{EventID: o.EventID, OrderID: o.OrderID, Body: store.Text("{}"), Digest: make([]byte, 32), Outcome: "decided"},
			Order: &o, Tickets: tickets})
		return err
	})
}

// put is a ticket put on the rail by hand.
func (s *shop) put(order, effect, key string) {
	s.t.Helper()
	s.do(func(tx *store.Tx) error {
		_, err := tx.InsertTicket(store.NewTicket{OrderID: order, EffectType: effect, Payload: "{}", Key: key})
		return err
	})
}

var targetOf = map[string]string{store.TicketIssueRefund: "refund", store.TicketInventorySync: "inventory", store.TicketInventoryRelease: "release"}

const warehouse = "https://w.example/x"

// real makes every target real.
func (s *shop) real() {
	s.t.Helper()
	s.do(func(tx *store.Tx) error {
		_, err := tx.MarkTargets([]store.Mark{{Name: "refund", URL: warehouse}, {Name: "inventory", URL: warehouse}, {Name: "release", URL: warehouse}}, "test")
		return err
	})
}

// claim claims one ticket of a target; "" is one that is carried out here.
func (s *shop) claim(target string) (store.Ticket, string) {
	s.t.Helper()
	s.now = s.now.Add(time.Second)
	c, err := s.db.Claim(s.t.Context(), store.ClaimRequest{Limit: 1, Lease: time.Minute, Holder: "0000000000000001", Target: target, Address: address(target), TargetOf: targetOf})
	if err != nil || len(c.Tickets) != 1 {
		s.t.Fatalf("claim for %q: %d tickets, %v", target, len(c.Tickets), err)
	}
	return c.Tickets[0], c.Token
}

func address(target string) string {
	if target == "" {
		return ""
	}
	return warehouse
}

// local carries one ticket out here.
func (s *shop) local(ledgerType string) {
	s.t.Helper()
	t, token := s.claim("")
	s.do(func(tx *store.Tx) error {
		did, err := tx.SettleLocal(token, []store.Ticket{t}, ledgerType)
		if err == nil && did[t.ID] == store.Lost {
			err = errors.New("lost")
		}
		return err
	})
}

// send sends one ticket of a target and settles it by what came of that; "" is that nobody knows and the process is gone.
func (s *shop) send(target string, outcome store.Evidence, receipt string) store.Ticket {
	s.t.Helper()
	t, token := s.claim(target)
	var b store.Begun
	s.do(func(tx *store.Tx) (err error) {
		b, err = tx.BeginAttempt(store.Begin{Ticket: t.ID, Token: token, Kind: "send", Target: target, Address: warehouse, Letter: store.Letter{Key: t.Key, Body: []byte("{}")}})
		if err == nil && (b.Lost || b.Halted) {
			err = fmt.Errorf("not begun: %+v", b)
		}
		return err
	})
	if outcome == "" {
		s.do(func(tx *store.Tx) error { _, err := tx.Requeue(token, t.ID, store.Requeue{}); return err })
		return t
	}
	status := map[store.Evidence]int{store.Happened: 201, store.Rejected: 409}[outcome]
	s.do(func(tx *store.Tx) (err error) {
		if err = tx.EndAttempts(store.Ended{ID: b.ID, Outcome: string(outcome), Status: status, Receipt: receipt, Detail: "answered"}); err != nil {
			return err
		}
		switch outcome {
		case store.Happened:
			_, err = tx.Remember(t.ID, target, "remote")
		case store.Rejected:
			_, err = tx.BuryLine(token, t.ID, "no such SKU")
		default:
			_, err = tx.Park(token, t.ID, "ask the target")
		}
		return err
	})
	return t
}

// hand is an operator's act.
func (s *shop) hand(id int64, a store.HandAct) {
	s.t.Helper()
	a.Who, a.LedgerType = "ana", store.LedgerRefund
	s.do(func(tx *store.Tx) error { _, err := tx.ByHand(id, a); return err })
}
