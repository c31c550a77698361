package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"comanda/store"
)

// How the hammer is made up. hammerVar makes it longer: COMANDA_HAMMER=60s.
const (
	hammerVar    = "COMANDA_HAMMER"
	hammerTime   = 3 * time.Second
	hammerHands  = 4
	hammerKill   = 200 * time.Millisecond
	hammerRefill = 2000 // tickets, whenever fewer wait
	fewestKills  = 8    // however slow the machine is
)

// busyWords are what a program says that met a busy file and gave up: nobody may have to read that.
var busyWords = []string{"database is locked", "SQLITE_BUSY", "held by another writer", "(517)"}

// hand is one of the relays that work on the file, and whatever it said that it should not have.
type hand struct {
	*child
	said []<-chan string
}

func startHand(t *testing.T, p *proof, i int) hand {
	t.Helper()
	h := hand{child: must(p.relay(fmt.Sprintf("relay %d", i), "", "--lease", "2s", "--batch", fmt.Sprint(5+4*i)))(t)}
	for _, word := range busyWords {
		h.said = append(h.said, h.watch(word))
	}
	return h
}

// listen fails the test for a word that the hand should not have said.
func (h hand) listen(t *testing.T) {
	t.Helper()
	for _, said := range h.said {
		select {
		case line := <-said:
			t.Errorf("%s said: %s", h.name, line)
		default:
		}
	}
}

// hammer puts tickets on the rail as long as it is asked to.
type hammer struct {
	db      *store.DB
	tickets int
}

// refill makes sure that there is work; it is one more process on the file.
func (h *hammer) refill(t *testing.T) {
	t.Helper()
	err := h.db.Update(t.Context(), func(tx *store.Tx) error {
		counts, err := tx.Counts()
		if err != nil || counts.Waiting() > hammerRefill {
			return err
		}
		for i := range hammerRefill {
			order := fmt.Sprintf("ORD-%d", h.tickets+i)
			if _, err := tx.InsertTicket(store.NewTicket{OrderID: order, EffectType: store.TicketIssueRefund, Payload: `{"amount":1.00,"currency":"MXN"}`, Key: store.Key(store.LedgerRefund, order)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("put tickets on the rail beside the relays: %v", err)
	}
	h.tickets = int(h.count(t, `SELECT count(*) FROM outbox`))
}

func (h *hammer) count(t *testing.T, query string) int64 {
	t.Helper()
	return must(h.db.Query(t.Context(), query))(t).Rows[0][0].(int64)
}

// Four relays on one file, one of which is killed at a random moment about every 200 ms and started again: each
// ticket has one effect, no ticket is charged with a crash that was not its own so often that it is set aside, and
// nobody has to hear that the file was busy. COMANDA_HAMMER=60s makes it longer.
func TestHammer(t *testing.T) {
	length := hammerTime
	if text := os.Getenv(hammerVar); text != "" {
		length = must(time.ParseDuration(text))(t)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	p := onFile(t, builtProgram(t))
	h := &hammer{db: must(store.Open(t.Context(), p.file, store.Options{Readers: 1}))(t)}
	h.refill(t)
	var hands [hammerHands]hand
	for i := range hands {
		hands[i] = startHand(t, p, i)
	}
	kills, began := 0, time.Now()
	for ; kills < fewestKills || time.Since(began) < length; kills++ {
		<-time.After(hammerKill/2 + time.Duration(r.Int64N(int64(hammerKill)))) // a random moment of the relays' work
		h.refill(t)
		i := r.IntN(hammerHands)
		hands[i].kill()
		if err := hands[i].waitKilled(t.Context()); err != nil {
			t.Fatal(err)
		}
		hands[i].listen(t)
		hands[i] = startHand(t, p, i)
	}
	if err := p.untilDrained(t.Context()); err != nil {
		t.Error(err)
	}
	for _, hand := range hands {
		if err := hand.endGently(t.Context()); err != nil {
			t.Error(err)
		}
		hand.listen(t)
	}
	done := h.count(t, `SELECT count(*) FROM outbox WHERE status = 'done'`)
	effects, keys := h.count(t, `SELECT count(*) FROM external_effects_log`), h.count(t, `SELECT count(DISTINCT effect_key) FROM external_effects_log`)
	again := h.count(t, `SELECT count(*) FROM outbox WHERE attempts > 1`)
	t.Logf("%d kills in %s; %d tickets, %d effects, %d of them claimed again after a kill", kills, time.Since(began).Round(time.Second), h.tickets, effects, again)
	if want := int64(h.tickets); done != want || effects != want || keys != want {
		t.Errorf("of %d tickets %d are done; %d effects for %d keys", want, done, effects, keys)
	}
	if err := h.db.Close(); err != nil {
		t.Error(err)
	}
	if left := listing(t, p.dir); strings.Contains(strings.Join(left, " "), ".lock") {
		t.Errorf("lock files of dead relays are left: %q", left)
	}
}
