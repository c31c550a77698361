//go:build unix

package store

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"comanda/store/crashdisk"
)

// ack is something that was promised: from the at-th operation of the disk on, it must be there for ever.
type ack struct {
	at    int
	what  string
	query string // must answer 1
}

// lab is a store on a disk that loses what is not synced, and what it has promised so far.
type lab struct {
	t    *testing.T
	disk *crashdisk.Disk
	path string
	opt  Options
	db   *DB

	mu   sync.Mutex
	acks []ack
}

func newDisk(t *testing.T) *crashdisk.Disk {
	t.Helper()
	d, err := crashdisk.New()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newLab(t *testing.T, synchronous string) *lab {
	t.Helper()
	l := &lab{t: t, disk: newDisk(t), path: newPath(t), opt: Options{Synchronous: synchronous, Readers: 1}}
	l.opt.VFS = l.disk.VFS()
	l.open()
	return l
}

func (l *lab) open() {
	l.t.Helper()
	db, err := Open(l.t.Context(), l.path, l.opt)
	if err != nil {
		l.t.Fatal(err)
	}
	l.db = db
}

// promise notes what an Update that has returned without an error stands for.
func (l *lab) promise(what, query string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = append(l.acks, ack{at: l.disk.At(), what: what, query: fmt.Sprintf(query, args...)})
}

// order takes an order with two lines, as the director does.
func (l *lab) order(id string) {
	if _, err := l.take(id); err != nil {
		l.t.Error(err)
	}
}

// take is order with its outcome: accepted, or duplicate for one that is there already.
func (l *lab) take(id string) (status string, err error) {
	err = l.db.Update(l.t.Context(), func(tx *Tx) error {
		_, there, err := tx.Event("E-" + id)
		if status = "duplicate"; err != nil || there {
			return err
		}
		status = "accepted"
		d := Decision{Event: Event{EventID: "E-" + id, OrderID: id, Body: Text(`{"event_id":"E-` + id + `"}`), Digest: make([]byte, 32), Outcome: "decided"},
			Order: &Order{OrderID: id, EventID: "E-" + id, CustomerID: "C", Amount: "2154.00", Currency: "MXN", Category: "c", Priority: "p", CreditOK: true, Decision: "inventory", LineItems: JSON("[]")}}
		for _, sku := range []string{"A", "B"} {
			d.Tickets = append(d.Tickets, NewTicket{OrderID: id, EffectType: TicketInventorySync, Payload: `{"sku":"` + sku + `","quantity":1}`, Key: Key(LedgerInventory, id, sku)})
		}
		_, err = tx.Record(d)
		return err
	})
	if err != nil {
		return "", err
	}
	l.promise("order "+id, `SELECT (SELECT count(*) FROM events WHERE order_id = '%[1]s') = 1 AND (SELECT count(*) FROM orders WHERE order_id = '%[1]s') = 1
		AND (SELECT count(*) FROM outbox WHERE aggregate_id = '%[1]s') = 2`, id)
	return status, nil
}

// work claims what is due and settles it.
func (l *lab) work(limit int) {
	if err := l.carry(limit); err != nil {
		l.t.Error(err)
	}
}

// carry is work with its error. What an earlier claim of this lab left behind is claimed again.
func (l *lab) carry(limit int) error {
	var leases []lease
	err := l.db.View(l.t.Context(), func(tx *Tx) (err error) {
		leases, err = tx.leases()
		return err
	})
	if err != nil {
		return err
	}
	r := ClaimRequest{Limit: limit, Holder: "h", Lease: time.Minute, Token: NewToken()}
	for _, left := range leases {
		r.Void = append(r.Void, VoidLease{Token: left.token, Holder: left.holder})
	}
	c, err := l.db.Claim(l.t.Context(), r)
	if err != nil || len(c.Tickets) == 0 {
		return err
	}
	err = l.db.Update(l.t.Context(), func(tx *Tx) error {
		_, err := tx.SettleLocal(c.Token, c.Tickets, LedgerInventory)
		return err
	})
	if err != nil {
		return err
	}
	for _, t := range c.Tickets {
		l.promise("settlement of "+t.Key, `SELECT (SELECT count(*) FROM ledger WHERE effect_key = '%[1]s') = 1
			AND (SELECT count(*) FROM external_effects_log WHERE effect_key = '%[1]s') = 1 AND (SELECT status FROM outbox WHERE idempotency_key = '%[1]s') = 'done'`, t.Key)
	}
	return nil
}

// run is a day of the shop: orders alone and side by side, claims, settlements, a checkpoint, a restart.
func (l *lab) run() {
	for i := range 4 {
		l.order(fmt.Sprintf("A%d", i))
		l.work(3)
	}
	var together sync.WaitGroup
	for i := range 12 {
		together.Go(func() { l.order(fmt.Sprintf("B%d", i)) })
	}
	together.Wait()
	l.work(10)
	l.checkpoint()
	l.order("C1")
	l.work(100)
	if err := l.db.Close(); err != nil { // the last one out writes the WAL back and removes it
		l.t.Fatal(err)
	}
	l.open()
	for i := range 3 {
		l.order(fmt.Sprintf("D%d", i))
	}
	l.work(4)
	if err := l.db.Close(); err != nil {
		l.t.Fatal(err)
	}
}

// halves finds events, orders and tickets that are there in part.
const halves = `SELECT (SELECT count(*) FROM events LEFT JOIN orders USING (order_id) WHERE orders.order_id IS NULL)
	+ (SELECT count(*) FROM orders WHERE (SELECT count(*) FROM outbox WHERE aggregate_id = orders.order_id) <> 2)
	+ (SELECT count(*) FROM outbox LEFT JOIN orders ON orders.order_id = aggregate_id WHERE orders.order_id IS NULL)`

// verdict of one image.
type autopsy struct{ lost, corrupt, half []string }

// examine lets the real program open an image, on the real disk, and compares it with what was promised.
func (l *lab) examine(dir string, image map[string]crashdisk.Content, promised []ack) (a autopsy) {
	l.t.Helper()
	for name, body := range image {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			l.t.Error(err)
		}
	}
	db, err := Open(l.t.Context(), filepath.Join(dir, filepath.Base(l.path)), Options{Synchronous: "OFF", Readers: 1})
	if err != nil {
		a.corrupt = append(a.corrupt, err.Error())
		return a
	}
	defer db.Close()
	one := func(query string) string {
		answer, err := db.Query(l.t.Context(), query)
		if err != nil {
			return err.Error()
		}
		return answer.first()
	}
	if got := one(`PRAGMA integrity_check`); got != "ok" {
		a.corrupt = append(a.corrupt, got)
	}
	if got := one(halves); got != "0" {
		a.half = append(a.half, got)
	}
	for _, query := range Invariants() {
		if answer, err := db.Query(l.t.Context(), query); err != nil || len(answer.Rows) > 0 {
			a.half = append(a.half, fmt.Sprint(query, answer.Rows, err))
		}
	}
	if len(promised) == 0 {
		return a
	}
	all := make([]string, len(promised)) // one question for all: an image is looked through in milliseconds
	for i, p := range promised {
		all[i] = "(" + p.query + ")"
	}
	answer, err := db.Query(l.t.Context(), "SELECT "+strings.Join(all, ", "))
	for i, p := range promised {
		if err != nil || answer.Rows[0][i] != int64(1) {
			a.lost = append(a.lost, p.what)
		}
	}
	return a
}

// powerCut is what one power cut leaves, and what was promised by then.
type powerCut struct {
	where    string
	files    map[string]crashdisk.Content
	promised []ack
}

// cutEverywhere cuts the power after every operation, in every way, and has each image examined once. Where there
// would be more images than budget, some are left out at random.
func (l *lab) cutEverywhere(from int, seed uint64, budget int) (images int, lost, corrupt, half []string) {
	l.t.Helper()
	cuts := make(chan powerCut)
	var all sync.WaitGroup
	var mu sync.Mutex
	for range runtime.NumCPU() {
		dir := l.t.TempDir()
		all.Go(func() {
			for c := range cuts {
				a := l.examineIn(filepath.Join(dir, "image"), c)
				mu.Lock()
				images++
				lost, corrupt, half = append(lost, a.lost...), append(corrupt, a.corrupt...), append(half, a.half...)
				mu.Unlock()
			}
		})
	}
	l.eachCut(from, rand.New(rand.NewPCG(seed, 1)), budget, func(c powerCut) { cuts <- c })
	close(cuts)
	all.Wait()
	return images, lost, corrupt, half
}

func (l *lab) eachCut(from int, r *rand.Rand, budget int, do func(powerCut)) {
	log, p, seen := l.disk.Log(), crashdisk.NewPlatter(nil), map[[32]byte]bool{}
	every := max(1, len(log)*len(crashdisk.Cuts)/budget)
	for i, op := range log {
		p.Do(op)
		if i < from {
			continue
		}
		var promised []ack
		for _, a := range l.acks {
			if a.at <= i+1 {
				promised = append(promised, a)
			}
		}
		for _, way := range crashdisk.Cuts {
			if r.IntN(every) > 0 {
				continue
			}
			image := p.Image(way, r)
			if id := crashdisk.Fingerprint(image, len(promised)); !seen[id] {
				seen[id] = true
				do(powerCut{fmt.Sprintf("after operation %d of %d, %s: ", i+1, len(log), way.Name), image, promised})
			}
		}
	}
}

func (l *lab) examineIn(dir string, c powerCut) autopsy {
	if err := os.Mkdir(dir, 0o700); err != nil {
		l.t.Error(err)
	}
	a := l.examine(dir, c.files, c.promised)
	if err := os.RemoveAll(dir); err != nil {
		l.t.Error(err)
	}
	for _, found := range [][]string{a.lost, a.corrupt, a.half} {
		for i := range found {
			found[i] = c.where + found[i]
		}
	}
	return a
}

func firstOf(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d, the first: %s", len(all), all[0])
}

// The power is cut after every write, truncate, sync, creation and removal. With synchronous=FULL nothing that
// was acknowledged is lost, no file is corrupt, and nothing is there by half; with NORMAL, the negative control,
// acknowledged orders are lost, so the disk of this test does lose what was not synced.
func TestPowerLoss(t *testing.T) {
	const budget = 1500
	fullRunOnly(t)
	for _, sync := range []string{"FULL", "NORMAL"} {
		l := newLab(t, sync)
		l.run()
		const seed = 1
		images, lost, corrupt, half := l.cutEverywhere(0, seed, budget)
		t.Logf("%s: %d operations, %d acknowledgements, %d images (seed %d): lost %d, corrupt %d, half %d", sync, l.disk.At(), len(l.acks), images, seed, len(lost), len(corrupt), len(half))
		if len(corrupt)+len(half) > 0 {
			t.Errorf("%s: corrupt %s; half %s", sync, firstOf(corrupt), firstOf(half))
		}
		if sync == "FULL" && len(lost) > 0 {
			t.Errorf("lost %s", firstOf(lost))
		}
		if sync == "NORMAL" && len(lost) == 0 {
			t.Error("nothing is lost without syncs: this test can't see a loss")
		}
	}
}

// A process is killed before its sync, which leaves a commit in the page cache: visible, not on disk. The next
// one writes and syncs what was left before it answers anybody, so what it then tells as a duplicate is on
// disk; without that, the negative control, a power cut takes it away again.
func TestKillThenPowerLoss(t *testing.T) {
	for _, trusting := range []bool{false, true} {
		lostAll, images := []string(nil), 0
		for _, back := range []int{1, 2, 3} { // operations before the last sync
			l := newLab(t, "FULL")
			for i := range 3 {
				l.order(fmt.Sprintf("A%d", i))
			}
			l.order("LAST")
			killed := lastSync(l.disk.Log()) - back + 1
			l.opt.trusting = trusting
			l.restartAt(killed)
			from := l.disk.At()
			l.acks = nil
			if answer, err := l.db.Query(t.Context(), `SELECT order_id FROM orders`); err != nil {
				t.Fatal(err)
			} else {
				for _, row := range answer.Rows { // whoever asks is told "duplicate"
					l.promise(fmt.Sprint("order ", row[0]), `SELECT count(*) FROM orders WHERE order_id = '%s'`, row[0])
				}
			}
			l.disk.Note(crashdisk.Op{Kind: crashdisk.Write, File: "elsewhere"}) // time goes by
			n, lost, corrupt, half := l.cutEverywhere(from, 1, 1<<30)
			images += n
			lostAll = append(lostAll, lost...)
			if len(corrupt)+len(half) > 0 {
				t.Errorf("corrupt %s; half %s", firstOf(corrupt), firstOf(half))
			}
			_ = l.db.Close()
		}
		t.Logf("trusting the page cache %t: %d images, lost %d", trusting, images, len(lostAll))
		if !trusting && len(lostAll) > 0 {
			t.Errorf("told as a duplicate and lost: %s", firstOf(lostAll))
		}
		if trusting && len(lostAll) == 0 {
			t.Error("nothing is lost by trusting the page cache: this test can't see a loss")
		}
	}
}

func lastSync(log []crashdisk.Op) int {
	for i := len(log) - 1; i >= 0; i-- {
		if log[i].Kind == crashdisk.Sync {
			return i
		}
	}
	return 0
}

// restartAt makes a new process of the same machine find the file as it was after n operations, with everything
// that was written and not synced in the page cache.
func (l *lab) restartAt(n int) {
	l.t.Helper()
	old := l.db
	p := crashdisk.NewPlatter(nil)
	for _, op := range l.disk.Log()[:n] {
		p.Do(op)
	}
	dir := l.t.TempDir()
	l.path = filepath.Join(dir, filepath.Base(l.path))
	for name, body := range p.Image(crashdisk.Everything, rand.New(rand.NewPCG(1, 1))) {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := old.Close(); err != nil {
		l.t.Fatal(err)
	}
	l.disk.Reset(n)
	l.open()
}

// checkpoint writes the WAL back into the file and empties it, as another client on the same disk.
func (l *lab) checkpoint() {
	l.t.Helper()
	db, err := sql.Open(driverName, fileURI(l.path, url.Values{"vfs": {l.disk.VFS()}, "_busy_timeout": {"5000"}}))
	if err != nil {
		l.t.Fatal(err)
	}
	mustExec(l.t, db, `PRAGMA wal_checkpoint(TRUNCATE)`)
	if err := db.Close(); err != nil {
		l.t.Fatal(err)
	}
}
