package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// handStates are the six states, as the columns that belong to each.
var handStates = map[string]string{
	"pending":    `status = 'pending', due_at = 9, failures = 3, lookups = 2, crashes = 1, detail = 'late'`,
	"processing": `status = 'processing', claim_token = 't', lease_holder = 'h', lease_ms = 1000`,
	"done":       `status = 'done', processed_at = 1`,
	"dead":       `status = 'dead', processed_at = 1, failures = 3, detail = 'no'`,
	"review":     `status = 'review', failures = 3, detail = 'ask'`,
	"discarded":  `status = 'discarded', processed_at = 1`,
}

// bring1 is a file with one refund in a state; unknown gives it a send of which nobody knows what came.
func bring1(t *testing.T, state string, unknown bool) (*DB, int64) {
	t.Helper()
	path := newPath(t)
	db := open(t, path, Options{Synchronous: "OFF", Readers: 1})
	id := put(t, db, TicketIssueRefund, 1)[0]
	other := raw(t, path)
	mustExec(t, other, `UPDATE outbox SET wire_key = 'k', wire_body = X'7B7D', `+handStates[state]+` WHERE id = $1`, id)
	if unknown {
		mustExec(t, other, `INSERT INTO attempts (ticket_id, claim_token, begun_at, kind, target, address) VALUES ($1, 't', 1, 'send', 'refund', $2)`, id, gate)
	}
	return db, id
}

// byHand1 tries an act in a transaction of its own.
func byHand1(t *testing.T, db *DB, id int64, a HandAct) (got Ticket, err error) {
	t.Helper()
	a.Who, a.LedgerType = "me", LedgerRefund
	err = db.Update(t.Context(), func(tx *Tx) error {
		one, err := tx.ByHand(id, a)
		got = one
		return err
	})
	return got, err
}

// What each act makes of each state, "?" behind those with an unknown send; what is not named is refused,
// and a refusal writes nothing.
func TestByHandInEveryState(t *testing.T) {
	fullRunOnly(t)
	acts := []struct {
		name    string
		act     HandAct
		closes  bool // the unknown sends are cleared up
		allowed string
	}{
		{"retry", HandAct{Do: ActRetry}, false, "pending>pending pending?>pending dead>pending"},
		{"send again", HandAct{Do: ActRetry, SendAgain: true}, true, "pending>pending pending?>pending dead>pending dead?>pending review>pending review?>pending"},
		{"discard", HandAct{Do: ActDiscard, Reason: "r"}, false, "pending>discarded dead>discarded"},
		{"happened", HandAct{Do: ActResolve, Happened: true, Reference: "rf_1", Reason: "r"}, true, "review>done review?>done dead?>done"},
		{"did not", HandAct{Do: ActResolve, Reason: "r"}, true, "review>dead review?>dead dead?>dead"},
	}
	for _, c := range acts {
		for state := range handStates {
			for _, mark := range []string{"", "?"} {
				name := c.name + " in " + state + mark
				db, id := bring1(t, state, mark == "?")
				before := dump(t, db)
				after, allowed := strings.CutPrefix(find(c.allowed, state+mark+">"), state+mark+">")
				got, err := byHand1(t, db, id, c.act)
				var conflict *Conflict
				switch {
				case !allowed:
					if !errors.As(err, &conflict) || conflict.State != state || !strings.HasPrefix(conflict.Why, fmt.Sprintf("ticket %d ", id)) {
						t.Errorf("%s: %v", name, err)
					}
					if now := dump(t, db); now != before {
						t.Errorf("%s was refused and wrote\n%s\nover\n%s", name, now, before)
					}
					continue
				case err != nil:
					t.Errorf("%s: %v", name, err)
					continue
				}
				checkByHand(t, name, db, got, after, mark == "?" && !c.closes)
			}
		}
	}
}

// find returns the word of a list that begins so, or "".
func find(words, prefix string) string {
	for w := range strings.FieldsSeq(words) {
		if strings.HasPrefix(w, prefix) {
			return w
		}
	}
	return ""
}

// checkByHand holds what must be true of a ticket after any act.
func checkByHand(t *testing.T, name string, db *DB, got Ticket, after string, unknown bool) {
	t.Helper()
	if got.Status != after || (got.ProcessedAt != nil) != (after != "pending") {
		t.Errorf("%s: %s, processed at %v, want %s", name, got.Status, got.ProcessedAt, after)
	}
	if after == "pending" && (got.DueAt != 0 || got.Failures+got.Lookups+got.Crashes != 0 || got.Detail != "") {
		t.Errorf("%s: not as new: %+v", name, got)
	}
	if got.Key == "" || got.WireKey == nil || *got.WireKey != "k" || number(t, db, `SELECT count(*) FROM outbox WHERE wire_body = X'7B7D'`) != 1 {
		t.Errorf("%s: what was sent has changed: %+v", name, got)
	}
	ledger := map[bool]int64{true: 1}[after == "done"]
	wantNumber(t, db, ledger, `SELECT count(*) FROM ledger`)
	wantNumber(t, db, ledger, `SELECT count(*) FROM ledger WHERE how = 'by hand' AND effect_type = 'refund' AND effect_key = $1`, got.Key)
	wantNumber(t, db, 0, `SELECT count(*) FROM external_effects_log`)
	wantNumber(t, db, map[bool]int64{true: 1}[unknown], `SELECT count(*) FROM attempts WHERE kind = 'send' AND closed_seq = 0`)
	wantNumber(t, db, 1, `SELECT count(*) FROM operator_log WHERE who = 'me' AND subject = $1`, TicketSubject(got.ID))
}

// Whose effect is in the ledger is not sent again and not thrown away, whatever else is asked for.
func TestByHandAgainstTheLedger(t *testing.T) {
	for _, c := range []struct {
		state   string
		unknown bool
		act     HandAct
		why     string // "" is allowed
	}{
		{"pending", false, HandAct{Do: ActRetry, SendAgain: true}, "the relay notes it as done"},
		{"pending", true, HandAct{Do: ActDiscard, Reason: "r"}, "the relay notes it as done"},
		{"dead", false, HandAct{Do: ActRetry}, "resolve it as that"},
		{"dead", false, HandAct{Do: ActDiscard, Reason: "r"}, "resolve it as that"},
		{"dead", true, HandAct{Do: ActRetry, SendAgain: true}, "resolve it as that"},
		{"dead", true, HandAct{Do: ActResolve, Reason: "r"}, "resolve it as that"},
		{"review", false, HandAct{Do: ActRetry, SendAgain: true}, "resolve it as that"},
		{"review", true, HandAct{Do: ActResolve, Reason: "r"}, "resolve it as that"},
		{"dead", true, HandAct{Do: ActResolve, Happened: true, Reason: "r"}, ""},
		{"review", false, HandAct{Do: ActResolve, Happened: true, Reason: "r"}, ""},
		{"dead", false, HandAct{Do: ActResolve, Happened: true, Reason: "r"}, ""}, // a success that came late
	} {
		db, id := bring1(t, c.state, c.unknown)
		mustExec(t, raw(t, db.Path()), `INSERT INTO ledger (effect_key, order_id, effect_type, status, how) SELECT idempotency_key, aggregate_id, 'refund', 'done', 'remote' FROM outbox`)
		got, err := byHand1(t, db, id, c.act)
		var conflict *Conflict
		switch {
		case c.why == "":
			if err != nil || got.Status != "done" {
				t.Errorf("%s %+v: %s, %v", c.state, c.act, got.Status, err)
			}
		case !errors.As(err, &conflict) || conflict.State != "in the ledger" || !strings.Contains(conflict.Why, c.why):
			t.Errorf("%s %+v: %v, want %q", c.state, c.act, err, c.why)
		}
		wantNumber(t, db, 1, `SELECT count(*) FROM ledger WHERE how = 'remote'`)
	}
}

// A sentence that sends the operator to another act must not send there in vain.
func TestConflictsLeadSomewhere(t *testing.T) {
	fullRunOnly(t)
	for state := range handStates {
		for _, unknown := range []bool{false, true} {
			for _, ledger := range []bool{false, true} {
				db, id := bring1(t, state, unknown)
				if ledger {
					mustExec(t, raw(t, db.Path()), `INSERT INTO ledger (effect_key, order_id, effect_type, status) SELECT idempotency_key, aggregate_id, 'refund', 'done' FROM outbox`)
				}
				for _, a := range []HandAct{{Do: ActRetry}, {Do: ActDiscard, Reason: "r"}} {
					err := db.View(t.Context(), func(tx *Tx) error { _, err := tx.MayAct(id, a); return err })
					if err == nil || !strings.Contains(err.Error(), "resolve") {
						continue
					}
					err = db.View(t.Context(), func(tx *Tx) error {
						_, err := tx.MayAct(id, HandAct{Do: ActResolve, Happened: true, Reason: "r"})
						return err
					})
					if err != nil {
						t.Errorf("%s, unknown %t, in the ledger %t: %s says to resolve it, and that says %v", state, unknown, ledger, a.Do, err)
					}
				}
			}
		}
	}
}

// While an order is taken back no line of it is sent again; each ends by hand all the same, and what was
// taken is given back and the deposit returned in that transaction.
func TestByHandInACompensatingOrder(t *testing.T) {
	for _, c := range []struct {
		state    lineState
		act      HandAct
		after    string
		releases int64
	}{
		{"review", HandAct{Do: ActRetry, SendAgain: true}, "", 0},
		{"unknown", HandAct{Do: ActRetry}, "", 0},
		{"unknown", HandAct{Do: ActRetry, SendAgain: true}, "", 0},
		{"review", HandAct{Do: ActResolve, Happened: true, Reason: "r"}, "done", 1},
		{"review", HandAct{Do: ActResolve, Reason: "r"}, "dead", 0},
	} {
		s := newShop(t)
		s.bring(1, c.state)
		s.do(func(tx *Tx) error { _, err := tx.BuryLine(s.tokens[0], s.ids[0], "out of stock"); return err })
		s.bring(2, "done")
		c.act.Who, c.act.LedgerType = "me", LedgerInventory
		var conflict *Conflict
		err := s.db.Update(t.Context(), func(tx *Tx) error { _, err := tx.ByHand(s.ids[1], c.act); return err })
		if c.after == "" {
			if !errors.As(err, &conflict) || conflict.State != "compensating" {
				t.Errorf("%s, %+v: %v", c.state, c.act, err)
			}
			continue
		}
		if err != nil || ticket(t, s.db, s.ids[1]).Status != c.after {
			t.Errorf("%s, %+v: %s, %v", c.state, c.act, ticket(t, s.db, s.ids[1]).Status, err)
		}
		s.check("by hand")
		wantNumber(t, s.db, 1+c.releases, `SELECT count(*) FROM outbox WHERE effect_type = 'inventory_release'`)
		wantNumber(t, s.db, 1, `SELECT count(*) FROM outbox WHERE effect_type = 'issue_refund'`)
	}
}

// The release and the refund of such an order are no lines of it: a person may send them again.
func TestCompensationsMayBeRetried(t *testing.T) {
	s := newShop(t)
	s.bring(1, "done")
	s.bring(2, "done")
	s.do(func(tx *Tx) error { _, err := tx.BuryLine(s.tokens[0], s.ids[0], "out of stock"); return err })
	mustExec(t, raw(t, s.db.Path()), `UPDATE outbox SET status = 'review' WHERE status = 'pending'`)
	wantNumber(t, s.db, 3, `SELECT count(*) FROM outbox WHERE status = 'review'`)
	for id := s.ids[2] + 1; id <= s.ids[2]+3; id++ {
		if got, err := byHand1(t, s.db, id, HandAct{Do: ActRetry, SendAgain: true}); err != nil || got.Status != "pending" {
			t.Errorf("ticket %d: %s, %v", id, got.Status, err)
		}
	}
}

// The story tells an act before what came of it, and no act that was about something else of the same name.
func TestStoryTellsActs(t *testing.T) {
	db, id := bring1(t, "dead", false)
	one := ticket(t, db, id)
	update(t, db, func(tx *Tx) error {
		if err := tx.SetCredit(Credit{CustomerID: one.AggregateID, Currency: "MXN", Limit: "1.00"}, "me"); err != nil {
			return err
		}
		return tx.PauseTarget(one.AggregateID, "me", "")
	})
	if _, err := byHand1(t, db, id, HandAct{Do: ActRetry, SendAgain: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := byHand1(t, db, id, HandAct{Do: ActDiscard, Reason: "closed"}); err != nil {
		t.Fatal(err)
	}
	var s Story
	if err := db.View(t.Context(), func(tx *Tx) (err error) { s, err = tx.Story(one.AggregateID); return err }); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range s.Timeline {
		texts = append(texts, m.Kind+" "+m.Text)
	}
	want := fmt.Sprintf("operator ticket retried by me: was dead: no (send again)|operator ticket discarded by me: was pending; closed|discarded ticket %d is discarded: closed", id)
	if got := strings.Join(texts[len(texts)-3:], "|"); len(s.Acts) != 2 || got != want {
		t.Errorf("%d acts, got\n%s, want\n%s", len(s.Acts), strings.Join(texts, "|"), want)
	}
	if err := db.View(t.Context(), func(tx *Tx) error { _, err := tx.Ticket(id + 1); return err }); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, err := byHand1(t, db, id+1, HandAct{Do: ActRetry}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}
