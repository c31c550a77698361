//go:build unix

package store

import (
	"database/sql"
	"errors"
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

	"comanda/schema"
	"comanda/store/crashdisk"
)

// ailment is one way in which a disk fails: operations of one kind, the nth of them or all from the nth on.
type ailment struct {
	kind    crashdisk.Kind
	verdict crashdisk.Verdict
	name    string
	nth     int
	forGood bool
}

func (a ailment) String() string {
	if a.forGood {
		return fmt.Sprintf("%s from the %d. on", a.name, a.nth)
	}
	return fmt.Sprintf("the %d. %s", a.nth, a.name)
}

// fault is a of a disk. It counts, and tells whether it has struck.
func (a ailment) fault() (f crashdisk.Fault, struck *bool) {
	n := 0
	struck = new(bool)
	return func(op crashdisk.Op) crashdisk.Verdict {
		if op.Kind != a.kind {
			return crashdisk.Verdict{}
		}
		if n++; n == a.nth || a.forGood && n > a.nth {
			*struck = true
			return a.verdict
		}
		return crashdisk.Verdict{}
	}, struck
}

// ailments are all kinds, without their number.
func ailments() []ailment {
	v := func(code int32) crashdisk.Verdict { return crashdisk.Verdict{Code: code} }
	short := func(code int32) crashdisk.Verdict { return crashdisk.Verdict{Code: code, Short: true} }
	return []ailment{
		{kind: crashdisk.Write, verdict: v(crashdisk.Full), name: "write without room"},
		{kind: crashdisk.Write, verdict: v(crashdisk.WriteError), name: "write that fails"},
		{kind: crashdisk.Write, verdict: short(crashdisk.Full), name: "write by half without room"},
		{kind: crashdisk.Write, verdict: short(crashdisk.WriteError), name: "write by half that fails"},
		{kind: crashdisk.Sync, verdict: v(crashdisk.SyncError), name: "sync that fails"},
		{kind: crashdisk.Sync, verdict: v(crashdisk.Full), name: "sync without room"},
		{kind: crashdisk.Truncate, verdict: v(crashdisk.TruncateError), name: "truncate that fails"},
		{kind: crashdisk.Truncate, verdict: v(crashdisk.Full), name: "truncate without room"},
		{kind: crashdisk.Read, verdict: v(crashdisk.ReadError), name: "read that fails"},
		{kind: crashdisk.Delete, verdict: v(crashdisk.DeleteError), name: "delete that fails"},
		{kind: crashdisk.Create, verdict: v(crashdisk.CantOpen), name: "creation that fails"},
		{kind: crashdisk.Create, verdict: v(crashdisk.Full), name: "creation without room"},
		{kind: crashdisk.Open, verdict: v(crashdisk.CantOpen), name: "open that fails"},
	}
}

// sickDay is a short day on a disk that may fail: each step may. It returns the orders whose senders were not
// told that they are taken.
func (l *lab) sickDay() (owed []string, faults []error) {
	note := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	order := func(id string) {
		if l.db == nil {
			return // nobody listens
		}
		if _, err := l.take(id); err != nil {
			note(err)
			owed = append(owed, id)
		}
	}
	reopen := func() {
		db, err := Open(l.t.Context(), l.path, l.opt)
		if note(err); err == nil {
			l.db = db
		}
	}
	carry := func(limit int) {
		if l.db != nil {
			note(l.carry(limit))
		}
	}
	reopen()
	order("A0")
	order("A1")
	if l.db != nil {
		for id, err := range l.takeTogether("B0", "B1", "B2") {
			if note(err); err != nil {
				owed = append(owed, id)
			}
		}
	}
	carry(3)
	note(l.tryCheckpoint())
	order("C0")
	carry(100)
	if l.db != nil {
		note(l.db.Close())
		l.db = nil
	}
	reopen()
	order("D0")
	carry(1)
	return owed, faults
}

// takeTogether has orders taken by one group commit.
func (l *lab) takeTogether(ids ...string) map[string]error {
	gate, begun := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		once := sync.OnceFunc(func() { close(begun) })
		_ = l.db.Update(l.t.Context(), func(*Tx) error { once(); <-gate; return nil })
		once() // it could not even begin
	})
	<-begun
	var lock sync.Mutex
	answers := map[string]error{}
	for i, id := range ids {
		all.Go(func() {
			_, err := l.take(id)
			lock.Lock()
			defer lock.Unlock()
			answers[id] = err
		})
		for len(l.db.queue) <= i && !l.answered(&lock, answers, id) { // in this order
			runtime.Gosched()
		}
	}
	close(gate)
	all.Wait()
	return answers
}

func (l *lab) answered(lock *sync.Mutex, answers map[string]error, id string) bool {
	lock.Lock()
	defer lock.Unlock()
	_, yes := answers[id]
	return yes
}

func (l *lab) tryCheckpoint() error {
	db, err := sql.Open(driverName, fileURI(l.path, url.Values{"vfs": {l.disk.VFS()}, "_busy_timeout": {"5000"}}))
	if err != nil {
		return err
	}
	_, err = db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
	return errors.Join(translate(err), db.Close())
}

// triesAfter is how many times a sender has to ask at most once the disk is well again.
const triesAfter = 2

// convalesce is what must be true once the disk is well: without a restart the orders that were refused are
// taken, each once, and the rest is carried out. A program that did not start is started again.
func (l *lab) convalesce(owed []string) (complaints []string) {
	say := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	if l.db == nil {
		db, err := Open(l.t.Context(), l.path, l.opt)
		if err != nil {
			say("not recovered: it does not open: %v", err)
			return complaints
		}
		l.db = db
	}
	for _, id := range append(owed, "NEXT") {
		var err error
		for range triesAfter {
			if _, err = l.take(id); err == nil {
				break
			}
		}
		if err != nil {
			say("not recovered: order %s: %v", id, err)
		}
	}
	for range 3 {
		if err := l.carry(100); err != nil {
			say("not recovered: %v", err)
		}
	}
	if err := l.db.LastCommit(); err != nil {
		say("not recovered: LastCommit: %v", err)
	}
	if err := l.db.View(l.t.Context(), func(tx *Tx) error { _, err := tx.Counts(); return err }); err != nil {
		say("not recovered: a reader: %v", err)
	}
	if err := l.db.Close(); err != nil {
		say("not recovered: Close: %v", err)
	}
	l.db = nil
	return complaints
}

// suffer has the day pass on a disk with the ailment, heals it, and returns what was wrong then, and whether the
// ailment struck at all.
func (l *lab) suffer(a ailment) (complaints []string, struck bool) {
	dir := l.t.TempDir()
	l.path, l.db, l.acks = filepath.Join(dir, "comanda.db"), nil, nil
	l.disk.Reset(0)
	fault, did := a.fault()
	l.disk.Break(fault)
	owed, faults := l.sickDay()
	if broken := l.stillPromises(a, *did); broken != "" {
		complaints = append(complaints, broken)
	}
	for _, err := range faults {
		if !isSaid(err) {
			complaints = append(complaints, "an error that says nothing of the disk: "+err.Error())
		}
	}
	l.disk.Break(nil)
	complaints = append(complaints, l.convalesce(owed)...)
	l.promise("every ticket carried out once", `SELECT (SELECT count(*) FROM outbox WHERE status <> 'done') = 0
		AND (SELECT count(*) FROM external_effects_log) = (SELECT count(*) FROM outbox)`)
	x := l.examine(dir, nil, l.acks)
	for what, all := range map[string][]string{"lost": x.lost, "corrupt": x.corrupt, "half": x.half} {
		for _, s := range all {
			complaints = append(complaints, what+": "+s)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		l.t.Fatal(err)
	}
	return complaints, *did
}

// stillPromises makes sure that nothing is promised while no write or no sync succeeds.
func (l *lab) stillPromises(a ailment, struck bool) string {
	if l.db == nil || !struck || !a.forGood || a.kind != crashdisk.Sync && a.kind != crashdisk.Write {
		return ""
	}
	if status, err := l.take("MEANWHILE"); err == nil {
		return "lost: promised on a disk that takes nothing: " + status
	}
	if l.db.LastCommit() == nil {
		return "not said: a commit failed and LastCommit is nil"
	}
	return ""
}

// isSaid tells whether an error names the disk's fault in a way that callers can tell from a defect.
func isSaid(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, ErrUnknownOutcome) || errors.Is(err, ErrRefused) || IsDiskFault(err)
}

// Every operation of a day on the disk fails, one after the other: once, and from there on for good. Nothing
// that was promised is lost, nothing is there by half, and once the disk is well again so is the store, without a
// restart. COMANDA_SWEEP=all tries every one, otherwise it is a sample.
func TestEveryOperationFails(t *testing.T) {
	fullRunOnly(t)
	l := &lab{t: t, disk: newDisk(t), opt: Options{Readers: 1, BusyTimeout: time.Second}}
	l.opt.VFS = l.disk.VFS()
	all := l.everyAilment()
	const seed, sample = 1, 30
	chosen := all
	if os.Getenv("COMANDA_SWEEP") != "all" {
		r := rand.New(rand.NewPCG(seed, 2))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		chosen = all[:min(sample, len(all))]
	}
	tried, wrong := 0, map[string]int{"lost": 0, "half": 0, "corrupt": 0, "not recovered": 0}
	for _, a := range chosen {
		complaints, struck := l.suffer(a)
		if struck {
			tried++
		}
		for _, c := range complaints {
			kind, _, _ := strings.Cut(c, ":")
			if wrong[kind]++; wrong[kind] <= 10 {
				t.Errorf("%s: %s", a, c)
			}
		}
	}
	t.Logf("seed %d: %d of %d faults tried, %d struck: %v", seed, len(chosen), len(all), tried, wrong)
	if tried < len(chosen)*9/10 {
		t.Errorf("only %d of %d faults struck: the day is not the same each time", tried, len(chosen))
	}
}

// everyAilment counts the operations of a day without faults and returns a fault for each of them.
func (l *lab) everyAilment() (all []ailment) {
	count := map[crashdisk.Kind]int{}
	l.path = newPath(l.t)
	l.disk.Break(func(op crashdisk.Op) crashdisk.Verdict { count[op.Kind]++; return crashdisk.Verdict{} })
	if owed, faults := l.sickDay(); len(owed)+len(faults) > 0 {
		l.t.Fatalf("a day on a good disk: %v, owed %v", faults, owed)
	}
	l.disk.Break(nil)
	if err := l.db.Close(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Logf("operations of a day: %v", count)
	for _, a := range ailments() {
		if count[a.kind] == 0 {
			l.t.Errorf("a day has no %s", a.kind)
		}
		for n := range count[a.kind] {
			a.nth = n + 1
			for _, a.forGood = range []bool{false, true} {
				all = append(all, a)
			}
		}
	}
	return all
}

// nthSync fails the nth sync of a file whose name ends in suffix.
func nthSync(nth int, suffix string) (f crashdisk.Fault, struck *bool) {
	n := 0
	struck = new(bool)
	return func(op crashdisk.Op) crashdisk.Verdict {
		if op.Kind == crashdisk.Sync && strings.HasSuffix(op.File, suffix) {
			if n++; n == nth {
				*struck = true
				return crashdisk.Verdict{Code: crashdisk.SyncError}
			}
		}
		return crashdisk.Verdict{}
	}, struck
}

// What a failed sync should have put on the disk never comes there, whatever later syncs say. A sync fails, the
// shop goes on for three orders, and the power is cut after every operation from then on: nothing that was
// promised is lost.
func TestFailedSyncThenPowerLoss(t *testing.T) {
	fullRunOnly(t)
	images, failed, lost, wrong := 0, 0, []string(nil), []string(nil)
	for nth := 1; ; nth++ {
		l := newLab(t, "FULL")
		fault, struck := nthSync(nth, "")
		l.disk.Break(fault)
		l.syncsAfterAFault()
		if err := l.db.Close(); err != nil && !*struck {
			t.Fatal(err)
		}
		if !*struck {
			break
		}
		failed++
		from := 0
		for i, op := range l.disk.Log() {
			if op.Kind == crashdisk.SyncFailed {
				from = i
			}
		}
		n, lostNow, corrupt, half := l.cutEverywhere(from, uint64(nth), 80)
		images += n
		lost, wrong = append(lost, lostNow...), append(wrong, append(corrupt, half...)...)
	}
	t.Logf("%d syncs failed, %d images: lost %d, corrupt or half %d", failed, images, len(lost), len(wrong))
	if len(lost)+len(wrong) > 0 || failed == 0 {
		t.Errorf("lost %s; corrupt or half %s", firstOf(lost), firstOf(wrong))
	}
}

// syncsAfterAFault takes orders, each until it is taken, with a checkpoint among them.
func (l *lab) syncsAfterAFault() {
	insist := func(id string) {
		for range 1 + triesAfter {
			if _, err := l.take(id); err == nil {
				return
			} else if !errors.Is(err, ErrUnknownOutcome) {
				l.t.Errorf("order %s: %v", id, err)
			}
		}
		l.t.Errorf("order %s is never taken", id)
	}
	insist("A")
	_ = l.tryCheckpoint()
	insist("B")
	_ = l.tryCheckpoint()
	insist("C")
	insist("D")
}

// A COMMIT that errs may be there all the same: its sync fails, the process dies, and the next one of the same
// machine finds it in the page cache, though it is not on the disk and no sync will bring it there. Whoever is
// told "duplicate" then, and whoever is taken after that, is safe from a power cut. The negative control, which
// takes the page cache for the disk and commits something at the start, loses both.
func TestFailedSyncThenKillThenPowerLoss(t *testing.T) {
	fullRunOnly(t)
	for _, trusting := range []bool{false, true} {
		l := newLab(t, "FULL")
		l.order("A")
		fault, struck := nthSync(1, "-wal")
		l.disk.Break(fault)
		if _, err := l.take("UNKNOWN"); !errors.Is(err, ErrUnknownOutcome) || !*struck {
			t.Fatalf("its COMMIT failed: %v", err)
		}
		l.disk.Break(nil)
		l.opt.trusting = trusting
		killed := l.disk.At()
		l.restartAt(killed)
		update(t, l.db, (*Tx).Touch)
		if status, err := l.take("UNKNOWN"); err != nil || status != "duplicate" {
			t.Errorf("asked again after the restart: %s, %v; want duplicate: this test needs the row to be there", status, err)
		}
		l.order("B")
		l.disk.Note(crashdisk.Op{Kind: crashdisk.Write, File: "elsewhere"}) // time goes by
		images, lost, corrupt, half := l.cutEverywhere(killed, 1, 1<<30)
		t.Logf("trusting the page cache %t: %d images: lost %d, corrupt %d, half %d", trusting, images, len(lost), len(corrupt), len(half))
		if len(corrupt)+len(half) > 0 || !trusting && len(lost) > 0 {
			t.Errorf("lost %s; corrupt %s; half %s", firstOf(lost), firstOf(corrupt), firstOf(half))
		}
		if trusting && len(lost) == 0 {
			t.Error("nothing is lost by trusting the page cache: this test can't see a loss")
		}
		if err := l.db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A COMMIT that errs leaves its outcome open for everybody in its group. The process goes on, and asking again
// finds out: here nothing was there, and each order is decided anew, once.
func TestFailedCommitIsUnknownToTheWholeGroup(t *testing.T) {
	l := newLab(t, "FULL")
	fault, struck := nthSync(1, "-wal")
	l.disk.Break(fault)
	ids := []string{"B0", "B1", "B2"}
	for id, err := range l.takeTogether(ids...) {
		if !errors.Is(err, ErrUnknownOutcome) || !*struck {
			t.Errorf("order %s of a group whose COMMIT failed: %v, want ErrUnknownOutcome", id, err)
		}
	}
	if err := l.db.LastCommit(); !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("LastCommit: %v, want ErrUnknownOutcome", err)
	}
	for _, want := range []string{"accepted", "duplicate"} {
		for _, id := range ids {
			if status, err := l.take(id); err != nil || status != want {
				t.Errorf("order %s asked again: %s, %v; want %s", id, status, err, want)
			}
		}
	}
	wantNumber(t, l.db, 3, `SELECT count(*) FROM orders`)
	wantNumber(t, l.db, 6, `SELECT count(*) FROM outbox`)
	if l.db.LastCommit() != nil {
		t.Errorf("LastCommit after good ones: %v", l.db.LastCommit())
	}
	if err := l.db.Close(); err != nil {
		t.Error(err)
	}
}

// A disk runs full while an older file is brought up to date: the error says so, the file keeps what it had, and
// the next start with room brings it up to date.
func TestFullDiskWhileMigrating(t *testing.T) {
	fullRunOnly(t)
	l := &lab{t: t, disk: newDisk(t), opt: Options{Readers: 1}}
	l.opt.VFS = l.disk.VFS()
	writes := 0
	older := func() {
		l.path = newPath(t)
		mustMigrate(t, l.path, steps(t)[:1])
		mustExec(t, raw(t, l.path), `INSERT INTO ledger (effect_key, order_id, effect_type, status, created_at) VALUES ('refund:O', 'O', 'refund', 'done', 1)`)
	}
	older()
	l.disk.Break(func(op crashdisk.Op) crashdisk.Verdict {
		if op.Kind == crashdisk.Write {
			writes++
		}
		return crashdisk.Verdict{}
	})
	l.open()
	if err := l.db.Close(); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for nth := 1; nth <= writes; nth += 3 {
		older()
		fault, _ := ailment{kind: crashdisk.Write, verdict: crashdisk.Verdict{Code: crashdisk.Full, Short: nth%2 == 0}, nth: nth, forGood: true}.fault()
		l.disk.Break(fault)
		db, err := Open(t.Context(), l.path, l.opt)
		if err == nil { // the last writes are of Close
			err = db.Close()
		} else if !errors.Is(err, ErrFull) {
			t.Errorf("write %d of %d: %v, want ErrFull", nth, writes, err)
		}
		if err != nil {
			tried++
		}
		l.disk.Break(nil)
		db = open(t, l.path, Options{})
		wantNumber(t, db, int64(len(steps(t))), `SELECT count(*) FROM schema_steps`)
		wantNumber(t, db, 1, `SELECT count(*) FROM ledger`)
		if a, err := db.Query(t.Context(), `PRAGMA integrity_check`); err != nil || a.first() != "ok" {
			t.Errorf("write %d of %d: %v, %v", nth, writes, a.Rows, err)
		}
	}
	t.Logf("%d writes of a migration, full at %d of them: nothing lost", writes, tried)
	if tried == 0 {
		t.Error("no write of the migration failed")
	}
}

// mustMigrate makes a file that has only some of the steps, as an older program does.
func mustMigrate(t *testing.T, path string, some []schema.Step) {
	t.Helper()
	db := &DB{path: path, opt: Options{}.withDefaults()}
	w, err := db.openConn(t.Context(), writerDSN(path, db.opt.BusyTimeout, "FULL", true))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range some {
		if err := migrateStep(t.Context(), w.sql, step, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.closeConns(); err != nil {
		t.Fatal(err)
	}
}
