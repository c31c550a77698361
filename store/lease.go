package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// Holder is a relay's identity on the file: an exclusive lock on a small file of its own beside the
// database. While the process lives the kernel keeps the lock; when it dies, however it dies, the
// kernel lets go, and whoever can take the lock knows that every lease in this name is void.
//
// The lock file also says which tickets are being carried out at this moment, one line a worker. It
// is written without a sync: a process that is killed leaves it as it was, and that is all it is for.
type Holder struct {
	ID   string // 16 hex digits
	path string
	lock *flock.Flock
	file *os.File

	slots int // one a worker

	mu   sync.Mutex
	free []int // slots
}

const (
	lockSuffix = ".lock"
	slotWidth  = 20 // 19 digits and a newline
)

func (db *DB) lockPath(holder string) string { return db.path + ".relay-" + holder + lockSuffix }

// NewHolder makes a lock file and takes its lock, and clears away lock files that dead relays left
// behind without a lease and without a word of what they had answered for (Arrive hears that). workers is how many tickets are carried out at the same time at most.
func (db *DB) NewHolder(ctx context.Context, workers int) (*Holder, error) {
	if err := db.sweepLocks(ctx); err != nil {
		return nil, err
	}
	h, err := db.lockWithSlots(workers)
	if isFull(err) && db.ballast.giveUp() { // no statement of SQLite's met the full disk
		h, err = db.lockWithSlots(workers)
	}
	if err != nil {
		return nil, err
	}
	for slot := range workers {
		h.free = append(h.free, slot)
	}
	return h, nil
}

func (db *DB) lockWithSlots(n int) (*Holder, error) {
	h, err := db.lockNew()
	if err != nil {
		return nil, err
	}
	h.slots = n
	if err := h.makeSlots(); err != nil {
		err = errors.Join(fmt.Errorf("prepare the lock file: %w", err), os.Remove(h.path), h.lock.Unlock())
		return nil, orFull(err)
	}
	return h, nil
}

// makeSlots opens the lock file and takes the room of every note: one that is taken later needs none.
func (h *Holder) makeSlots() (err error) {
	if h.file, err = os.OpenFile(h.path, os.O_RDWR, 0); err != nil {
		return err
	}
	if _, err = h.file.Write(make([]byte, h.slots*slotWidth)); err != nil {
		return errors.Join(err, h.file.Close())
	}
	return nil
}

// lockNew makes and locks a file under a new name. A relay that starts at the same time and sweeps may
// lock or remove the file between its making and its locking: then another name is tried.
func (db *DB) lockNew() (*Holder, error) {
	for {
		id := NewToken()
		h := &Holder{ID: id, path: db.lockPath(id)}
		h.lock = flock.New(h.path, flock.SetPermissions(0o600))
		ok, err := h.lock.TryLock()
		if isFull(err) {
			return nil, orFull(fmt.Errorf("make the lock file: %w", err))
		}
		if err != nil {
			return nil, refuse("the lock file %s can't be made or locked: %v: check that its directory can be written", h.path, err)
		}
		if ok && sameFile(h.lock, h.path) {
			return h, nil
		}
		_ = h.lock.Unlock()
	}
}

func sameFile(lock *flock.Flock, path string) bool {
	mine, err := lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

// NewToken returns a fresh random token, 16 hex digits.
func NewToken() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return fmt.Sprintf("%x", b)
}

// Begin notes in the lock file that a ticket is being carried out, and returns what ends that note.
// If this process dies in between, the crash is charged to this ticket.
func (h *Holder) Begin(ticket int64) (end func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.free) == 0 {
		return nil, errors.New("more tickets begun than there are workers")
	}
	slot := h.free[len(h.free)-1]
	if err := h.note(slot, ticket); err != nil {
		return nil, err
	}
	h.free = h.free[:len(h.free)-1]
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		_ = h.note(slot, 0) // a stale note costs the ticket one charge of five, nothing else
		h.free = append(h.free, slot)
	}, nil
}

func (h *Holder) note(slot int, ticket int64) error {
	line := fmt.Appendf(nil, "%0*d\n", slotWidth-1, ticket)
	if _, err := h.file.WriteAt(line, int64(slot*slotWidth)); err != nil {
		return fmt.Errorf("note a begun ticket in the lock file: %w", err)
	}
	return nil
}

// Close gives the lock back and removes the lock file.
func (h *Holder) Close() error {
	err := os.Remove(h.path)
	if errors.Is(err, os.ErrNotExist) { // somebody else did; so it is gone
		err = nil
	}
	return errors.Join(h.file.Close(), err, h.lock.Unlock())
}

// begunIn reads which tickets a dead holder was carrying out. What can't be read charges nobody.
func begunIn(path string) []int64 {
	text, err := os.ReadFile(path) // a lock file of ours, not the database
	if err != nil {
		return nil
	}
	var ids []int64
	for line := range slices.Chunk(text, slotWidth) { // a slot that was never used is a hole of zero bytes
		if id, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64); err == nil && id > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// VoidLease is a claim whose lease no longer counts: its tickets may be claimed again.
type VoidLease struct {
	Token  string
	Holder string
	Dead   bool    // the holder is dead, not merely late
	Begun  []int64 // tickets that a dead holder had begun and not ended
	lock   *flock.Flock
}

// Watch tells which leases are void. No wall clock takes part: a holder's death is told by its lock,
// and lateness by this process having itself seen the same token for the lease's whole length.
//
// Go's own clock stands still while the machine sleeps, the time since boot does not. Once the machine is awake
// again its holders have handover to hear that their time is up; then its sleep counts too.
type Watch struct {
	db    *DB
	mine  string // the holder that this process is
	mu    sync.Mutex
	inUse map[string]bool    // tokens of claims that this process has in hand
	seen  map[string]reading // token → when this process first saw it

	last reading   // of the clocks
	woke time.Time // when this process first looked after the machine had slept
}

// reading is what the two clocks that nobody sets show at one moment.
type reading struct {
	at   time.Time // Go's
	upMS int64     // since boot
}

func readClocks(boot BootClock) reading {
	_, ms := boot()
	return reading{time.Now(), ms}
}

// asleep is how long the machine has slept between two readings; less than a second is how clocks differ.
func (r reading) asleep(since reading) time.Duration {
	slept := time.Duration(r.upMS-since.upMS)*time.Millisecond - r.at.Sub(since.at)
	if slept < time.Second {
		return 0
	}
	return slept
}

// handover is how long after its sleep a machine's relays have to let go of what is over.
const handover = 2 * time.Second

// age is how long ago a token was first seen. The machine's sleep counts once its relays have had time to hear of it.
func (w *Watch) age(first, now reading) time.Duration {
	age := now.at.Sub(first.at)
	if now.at.Sub(w.woke) >= handover {
		age += now.asleep(first)
	}
	return age
}

// NewWatch begins to watch the file's leases for the process that is holder.
func (db *DB) NewWatch(holder string) *Watch {
	return &Watch{db: db, mine: holder, inUse: map[string]bool{}, seen: map[string]reading{}, last: readClocks(db.opt.Boot)}
}

// Take notes that this process has, or is about to have, a claim in hand; Drop that it has not any more.
// A claim in this process's name that it does not have in hand is void at once: its pass panicked, or
// its commit was unsure.
func (w *Watch) Take(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inUse[token] = true
}

// Drop is the end of what Take began.
func (w *Watch) Drop(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.inUse, token)
}

// For every pass of a relay; the partial index holds only what is claimed.
const sqlLeases = `SELECT claim_token, lease_holder, max(lease_ms) FROM outbox WHERE status = 'processing' GROUP BY claim_token, lease_holder`

type lease struct {
	token, holder string
	ms            int64
}

func (tx *Tx) leases() ([]lease, error) {
	return collect(tx, sqlLeases, nil, func(scan func(...any) error, l *lease) error { return scan(&l.token, &l.holder, &l.ms) })
}

// Void returns the leases that are void now. Done must be called with them, whatever became of them.
func (w *Watch) Void(ctx context.Context) ([]VoidLease, error) {
	var leases []lease
	err := w.db.View(ctx, func(tx *Tx) (err error) {
		leases, err = tx.leases()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read leases: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := readClocks(w.db.opt.Boot)
	if now.asleep(w.last) > 0 {
		w.woke = now.at
	}
	w.last = now
	dead := map[string]*flock.Flock{}
	alive := map[string]bool{}
	current := make(map[string]reading, len(leases))
	var void []VoidLease
	for _, l := range leases {
		first, ok := w.seen[l.token]
		if !ok {
			first = now
		}
		current[l.token] = first
		if l.holder == w.mine && !w.inUse[l.token] {
			void = append(void, VoidLease{Token: l.token, Holder: l.holder})
			continue
		}
		switch lock := w.db.takeIfDead(l.holder, dead, alive); {
		case lock != nil || dead[l.holder] != nil || !alive[l.holder]:
			void = append(void, VoidLease{Token: l.token, Holder: l.holder, Dead: true, Begun: begunIn(w.db.lockPath(l.holder)), lock: lock})
		case w.age(first, now) >= time.Duration(l.ms)*time.Millisecond:
			void = append(void, VoidLease{Token: l.token, Holder: l.holder})
		}
	}
	w.seen = current
	return void, nil
}

// takeIfDead tries the holder's lock, once a holder. It returns the lock if that could be taken just
// now; a missing lock file is a dead holder too (neither dead nor alive is set then).
func (db *DB) takeIfDead(holder string, dead map[string]*flock.Flock, alive map[string]bool) *flock.Flock {
	if dead[holder] != nil || alive[holder] {
		return nil
	}
	path := db.lockPath(holder)
	if strings.ContainsRune(holder, filepath.Separator) {
		return nil // not a name that we gave: nobody holds it
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDWR))
	ok, err := lock.TryLock()
	if err != nil || !ok {
		alive[holder] = !errors.Is(err, os.ErrNotExist)
		return nil
	}
	dead[holder] = lock
	return lock
}

// Done gives back the locks of dead holders; after their leases were freed it removes the files,
// except those that testify to what no start has heard yet.
func (w *Watch) Done(void []VoidLease, freed bool) {
	for _, v := range void {
		if v.lock == nil {
			continue
		}
		if seq, _ := witnessIn(v.lock.Path()); freed && seq == 0 {
			_ = os.Remove(v.lock.Path()) // while the lock is ours; a leftover is swept at the next start
		}
		_ = v.lock.Unlock()
	}
}

// sweepLocks removes lock files that nobody holds, no lease names and that testify to nothing, and the rows of relays
// that have no lock file any more.
func (db *DB) sweepLocks(ctx context.Context) error {
	names, err := db.lockFiles()
	if err != nil {
		return fmt.Errorf("list lock files: %w", err)
	}
	held := map[string]bool{}
	err = db.View(ctx, func(tx *Tx) error {
		leases, err := tx.leases()
		for _, l := range leases {
			held[db.lockPath(l.holder)] = true
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read leases: %w", err)
	}
	for _, name := range names {
		if held[name] {
			continue
		}
		lock := flock.New(name, flock.SetFlag(os.O_RDWR))
		if ok, err := lock.TryLock(); err == nil && ok {
			if seq, _ := witnessIn(name); seq == 0 {
				_ = os.Remove(name)
			}
			_ = lock.Unlock()
		}
	}
	return db.forgetRelays(ctx)
}

func (db *DB) forgetRelays(ctx context.Context) error {
	return db.Update(ctx, func(tx *Tx) error {
		relays, err := tx.Relays()
		if err != nil {
			return err
		}
		for _, r := range relays {
			if _, err := os.Stat(db.lockPath(r.Holder)); !errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err := tx.forgetRelay(r.Holder); err != nil {
				return err
			}
		}
		return nil
	})
}

func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
