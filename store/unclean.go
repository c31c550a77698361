package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Flight is a ticket that a process had claimed when it ended, and how often it had been claimed by then.
type Flight struct {
	Ticket   int64 `json:"ticket"`
	Attempts int64 `json:"attempts"`
}

// UncleanStop is what a start finds of processes that ended without a word: killed, or without power.
type UncleanStop struct {
	ID       int64 // 0: there is nothing to find out
	InFlight []Flight
	// Missing is how many places of the sequence such processes had answered for that the file did not hold when
	// they were found: a disk forgot what it had called safe, or the file was replaced. 0 when they left no note.
	Missing int64
}

const (
	sqlProcesses     = `SELECT holder, pid FROM processes ORDER BY holder`
	sqlArrive        = `INSERT INTO processes (holder, pid, started_at) VALUES ($1, $2, $3)`
	sqlDepart        = `DELETE FROM processes WHERE holder = $1`
	sqlInFlight      = `SELECT id, attempts, lease_holder FROM outbox WHERE status = 'processing' ORDER BY +id` // not along the primary key, past all that is done
	sqlOpenStops     = `SELECT id, checker, in_flight, missing FROM unclean_stops WHERE checked_at IS NULL OR damage <> '' OR lost + contradicts > 0 ORDER BY id`
	sqlForgetStop    = `DELETE FROM unclean_stops WHERE id = $1`
	sqlNoteStop      = `INSERT INTO unclean_stops (found_at, checker, in_flight, missing) VALUES ($1, $2, $3, $4) RETURNING id`
	sqlTrimStops     = `DELETE FROM unclean_stops WHERE id <= (SELECT max(id) FROM unclean_stops) - 100`
	sqlStopIsChecked = `UPDATE unclean_stops SET checked_at = $2, report = $3, damage = $4, lost = $5, contradicts = $6 WHERE id = $1`
)

type process struct {
	holder string
	pid    int
}

func (tx *Tx) processes() ([]process, error) {
	return collect(tx, sqlProcesses, nil, func(scan func(...any) error, p *process) error { return scan(&p.holder, &p.pid) })
}

// Arrive notes that the process of h works on the file, and returns what is to be found out about processes that
// ended without Depart. Of several that start at once one is told; what it does not come to find out is left to
// the next start, and so is a file in which something was found wrong.
func (db *DB) Arrive(ctx context.Context, h *Holder) (stop UncleanStop, err error) {
	flights := db.inFlight(ctx)
	heard := db.testimonies()
	err = db.Update(ctx, func(tx *Tx) (err error) {
		stop, err = db.arrive(tx, h, flights, heard)
		return err
	})
	db.dismiss(heard, err == nil)
	if err != nil {
		return UncleanStop{}, fmt.Errorf("look for processes that did not stop: %w", err)
	}
	db.witness.Store(h)
	if len(heard) > 0 {
		_ = db.sweepLocks(ctx) // what is left is swept at the next start
	}
	return stop, nil
}

// inFlight are the claimed tickets by holder, as far as they can be read: a damaged file is looked into all the same.
func (db *DB) inFlight(ctx context.Context) map[string][]Flight {
	flights := map[string][]Flight{}
	_ = db.View(ctx, func(tx *Tx) error {
		return tx.each(sqlInFlight, nil, func(scan func(...any) error) error {
			var f Flight
			var holder string
			err := scan(&f.Ticket, &f.Attempts, &holder)
			flights[holder] = append(flights[holder], f)
			return err
		})
	})
	return flights
}

func (db *DB) arrive(tx *Tx, h *Holder, flights map[string][]Flight, heard []testimony) (UncleanStop, error) {
	var stop UncleanStop
	found := len(heard) > 0 // a clean stop leaves none; the rows may be gone with what the file has lost
	all, err := tx.processes()
	if err != nil {
		return stop, err
	}
	var reached int64
	if _, err := tx.find(sqlSequence, nil, &reached); err != nil {
		return stop, err
	}
	stop.Missing = missing(heard, reached) // now: what is written from here on would hide it
	for _, p := range all {
		if !spoke(heard, p.holder) && db.lives(p.holder) {
			continue
		}
		if _, err := tx.exec(sqlDepart, p.holder); err != nil {
			return stop, err
		}
		found = true
		stop.InFlight = append(stop.InFlight, flights[p.holder]...)
	}
	if found, err = db.takeOver(tx, &stop, found); err != nil {
		return stop, err
	}
	if _, err := tx.exec(sqlArrive, h.ID, os.Getpid(), tx.now); err != nil || !found {
		return stop, err
	}
	return stop, tx.noteStop(&stop, h)
}

// takeOver adds what others were to find out and did not.
func (db *DB) takeOver(tx *Tx, stop *UncleanStop, found bool) (bool, error) {
	type open struct {
		id                int64
		checker, inFlight string
		missing           int64
	}
	all, err := collect(tx, sqlOpenStops, nil, func(scan func(...any) error, o *open) error {
		return scan(&o.id, &o.checker, &o.inFlight, &o.missing)
	})
	if err != nil {
		return found, err
	}
	for _, o := range all {
		if db.lives(o.checker) {
			continue
		}
		var flights []Flight
		_ = json.Unmarshal([]byte(o.inFlight), &flights) // what can't be read is not counted
		if _, err := tx.exec(sqlForgetStop, o.id); err != nil {
			return found, err
		}
		found = true
		stop.InFlight = append(stop.InFlight, flights...)
		stop.Missing = max(stop.Missing, o.missing) // "at least": the same note may have been heard before
	}
	return found, nil
}

func (tx *Tx) noteStop(stop *UncleanStop, h *Holder) error {
	flights, err := json.Marshal(append([]Flight{}, stop.InFlight...))
	if err != nil {
		return err
	}
	if _, err := tx.find(sqlNoteStop, []any{tx.now, h.ID, string(flights), stop.Missing}, &stop.ID); err != nil {
		return err
	}
	tx.wrote = true
	_, err = tx.exec(sqlTrimStops)
	return err
}

// lives reports whether a holder has its lock. Another relay that asks in the same moment looks like a holder, so
// a lock that is taken is asked for again.
func (db *DB) lives(holder string) bool {
	for range 3 {
		if alive, err := db.alive(holder); err == nil && !alive {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}

// Depart takes back what Arrive noted: the process of h stops.
func (db *DB) Depart(ctx context.Context, h *Holder) error {
	db.witness.Store(nil)
	err := db.Update(ctx, func(tx *Tx) error {
		_, err := tx.exec(sqlDepart, h.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("note that this process stops: %w", err)
	}
	return nil
}

// StopChecked writes down what came of finding out about an unclean stop. While something is wrong the next start
// finds out again.
func (tx *Tx) StopChecked(id int64, report string, v Verified) error {
	_, err := tx.exec(sqlStopIsChecked, id, tx.now, report, v.Damage, v.Lost, v.Contradicts)
	return err
}

const sqlWhereabouts = `SELECT count(*) FILTER (WHERE o.attempts > f.value ->> 'attempts' OR o.status = 'done'),
	count(*) FILTER (WHERE o.attempts <= f.value ->> 'attempts' AND o.status IN ('review', 'dead', 'discarded'))
	FROM json_each($1) AS f JOIN outbox AS o ON o.id = f.value ->> 'ticket'`

// Whereabouts says how many tickets that were in flight have been taken up again or are done, and how many wait
// for a person. The others wait for a relay.
func (tx *Tx) Whereabouts(flights []Flight) (resumed, parked int, err error) {
	list, err := json.Marshal(flights)
	if err != nil || len(flights) == 0 {
		return 0, 0, err
	}
	_, err = tx.find(sqlWhereabouts, []any{string(list)}, &resumed, &parked)
	return resumed, parked, err
}

// witnessMark begins the line of a lock file that says which place in the sequence its process has answered for.
// No ticket's id looks like it.
const witnessMark = "s"

// testify notes, before anybody is answered, up to which place in the sequence commits of this process are on
// disk. It is a note without a sync in the lock file, not in the database: it outlives the process, and says after
// a kill what the file must hold at least.
func (db *DB) testify(seq int64) {
	if h := db.witness.Load(); h != nil {
		line := fmt.Appendf(nil, "%s%0*d\n", witnessMark, slotWidth-2, seq)
		_, _ = h.file.WriteAt(line, int64(h.slots*slotWidth)) // a note that fails proves nothing, and breaks nothing
	}
}

// testimony is what the lock file of a dead process says that it had answered for, with the file's lock: of several
// that start at once one hears it.
type testimony struct {
	holder string
	seq    int64
	lock   *flock.Flock
}

// testimonies are those of the dead processes whose lock files nobody has heard yet. dismiss must be called with them.
func (db *DB) testimonies() (heard []testimony) {
	names, _ := db.lockFiles()
	for _, name := range names {
		if seq, _ := witnessIn(name); seq == 0 {
			continue
		}
		if lock := lockOfDead(name); lock != nil {
			heard = append(heard, testimony{db.holderOf(name), 0, lock})
			heard[len(heard)-1].seq, _ = witnessIn(name) // now that nobody else writes to it
		}
	}
	return slices.DeleteFunc(heard, func(t testimony) bool {
		if t.seq == 0 {
			_ = t.lock.Unlock()
		}
		return t.seq == 0
	})
}

// lockOfDead takes the lock of a dead process. Whoever only asks shares it for a moment, so it is tried again.
func lockOfDead(name string) *flock.Flock {
	lock := flock.New(name, flock.SetFlag(os.O_RDWR))
	for range 3 {
		if ok, err := lock.TryLock(); err == nil && ok {
			return lock
		}
		time.Sleep(2 * time.Millisecond)
	}
	_ = lock.Close()
	return nil
}

// dismiss gives the locks back. Once the file knows what was heard the lock files need not say it any more.
func (db *DB) dismiss(heard []testimony, noted bool) {
	for _, t := range heard {
		if _, at := witnessIn(t.lock.Path()); noted && at >= 0 {
			_ = os.Truncate(t.lock.Path(), at)
		}
		_ = t.lock.Unlock()
	}
}

// missing is how far what was testified lies beyond what the file reached.
func missing(heard []testimony, reached int64) (n int64) {
	for _, t := range heard {
		n = max(n, t.seq-reached)
	}
	return n
}

func spoke(heard []testimony, holder string) bool {
	return slices.ContainsFunc(heard, func(t testimony) bool { return t.holder == holder })
}

func (db *DB) lockFiles() ([]string, error) {
	return filepath.Glob(globEscape(db.path) + ".relay-*" + lockSuffix)
}

func (db *DB) holderOf(lockFile string) string {
	return strings.TrimSuffix(strings.TrimPrefix(lockFile, db.path+".relay-"), lockSuffix)
}

// witnessIn reads what a lock file testifies, and where in it; 0 and -1 where there is nothing.
func witnessIn(name string) (seq, at int64) {
	text, err := os.ReadFile(name) // a lock file of ours, not the database
	if err != nil {
		return 0, -1
	}
	at = int64(bytes.LastIndex(text, []byte(witnessMark)))
	if at < 0 {
		return 0, -1
	}
	digits, _, _ := bytes.Cut(text[at+int64(len(witnessMark)):], []byte("\n"))
	if seq, err = strconv.ParseInt(string(digits), 10, 64); err != nil || seq <= 0 {
		return 0, at
	}
	return seq, at
}

// The worst of the known ones: one that lost something is not hidden by one that did not.
const sqlWorstStop = `SELECT checked_at IS NULL, report, damage, missing + lost, contradicts FROM unclean_stops
	ORDER BY damage <> '' DESC, missing + lost > 0 DESC, contradicts > 0 DESC, id DESC LIMIT 1`

// lookAtStops tells of the worst of the unclean stops that are known, and of processes that have ended without
// anybody having looked.
func (db *DB) lookAtStops(ctx context.Context) []Check {
	return []Check{
		db.ask(ctx, "unclean stops", sqlWorstStop, func(a Answer, c *Check) {
			if len(a.Rows) == 0 {
				c.Answer = "none is known"
				return
			}
			open, report, damage, lost, contradicts := a.Rows[0][0] != int64(0), fmt.Sprint(a.Rows[0][1]), fmt.Sprint(a.Rows[0][2]), a.Rows[0][3] != int64(0), a.Rows[0][4] != int64(0)
			switch c.Answer = report; {
			case damage != "":
				c.Level, c.Detail = LevelWrong, "the file was found damaged: "+damage+": stop every comanda on it and restore it from a backup"
			case open:
				c.Level, c.Answer, c.Detail = LevelWarning, "not looked into yet", "a server that runs does, or the next start"
			case lost:
				c.Level, c.Detail = LevelWarning, "what had been answered for was not in the file then: the disk forgot what it had called safe, or the file or its rows were replaced; ask the shop's side for orders of that time that are not here"
			case contradicts:
				c.Level, c.Detail = LevelWarning, "the invariants say which rows, if they still do"
			}
		}),
		db.ask(ctx, "processes that ended without a word", sqlProcesses, func(a Answer, c *Check) {
			rows := map[string]string{} // holder → process
			for _, row := range a.Rows {
				rows[fmt.Sprint(row[0])] = fmt.Sprint(row[1])
			}
			db.lookAtTheDead(ctx, rows, c)
		}),
	}
}

// lookAtTheDead tells of the processes that have ended without a word: those of the rows (holder → process), and those
// of which the file has no row (any more) and whose lock files say what they had answered for.
func (db *DB) lookAtTheDead(ctx context.Context, rows map[string]string, c *Check) {
	heard := db.unheard()
	var gone []string
	for _, t := range heard {
		if rows[t.holder] == "" {
			gone = append(gone, "relay "+t.holder+", which the file does not know")
		}
	}
	for holder, pid := range rows {
		if !db.lives(holder) {
			gone = append(gone, "process "+pid)
		}
	}
	slices.Sort(gone)
	if c.Answer = strconv.Itoa(len(gone)); len(gone) == 0 {
		return
	}
	c.Level, c.Detail = LevelWarning, "killed, or without power ("+strings.Join(gone, ", ")+"); the next start looks into it"
	if n := db.missing(ctx, heard); n > 0 {
		c.Detail += fmt.Sprintf("; at least %d places answered for are not in the file: the disk forgot them, or another copy was put in its place", n)
	}
}

// unheard is what the lock files of dead processes testify, and is left to the next start to hear.
func (db *DB) unheard() (all []testimony) {
	names, _ := db.lockFiles()
	for _, name := range names {
		if seq, _ := witnessIn(name); seq > 0 && !db.lives(db.holderOf(name)) {
			all = append(all, testimony{holder: db.holderOf(name), seq: seq})
		}
	}
	return all
}

func (db *DB) missing(ctx context.Context, heard []testimony) (n int64) {
	_ = db.View(ctx, func(tx *Tx) error {
		var reached int64
		_, err := tx.find(sqlSequence, nil, &reached)
		n = missing(heard, reached)
		return err
	})
	return n
}
