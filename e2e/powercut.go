package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"comanda/store"
	"comanda/store/crashdisk"
)

// promise is something that must be there for ever from the at-th operation of the disk on.
type promise struct {
	at      int
	order   string
	tickets []string
	settled bool // its effects too
}

// Appliance serves a file in this process, in the lab, through another of SQLite's ways to the disk, until ctx ends.
// It calls opened with its address once it listens. Synchronous is "" for what the product uses.
type Appliance func(ctx context.Context, file, vfs, synchronous string, opened func(base string) error) error

// laboratory is where disks are tried on which the power goes, or which fail.
type laboratory struct {
	appliance   Appliance
	synchronous string // "" is what the product uses
	dir         string // scratch
	base        string // a closed file to begin with; "" for a new one
	prefix      string // of every order
}

// labDay is a day of orders on a disk that takes down what it is told.
type labDay struct {
	laboratory
	disk   *crashdisk.Disk
	file   string
	start  map[string]crashdisk.Content
	client *client
	storm  *storm // whose orders they are

	mu       sync.Mutex
	promises []promise
}

// newDay puts the base, or nothing, on a new disk.
func (l laboratory) newDay(name string) (*labDay, error) {
	disk, err := crashdisk.New()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(l.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	day := &labDay{laboratory: l, disk: disk, file: filepath.Join(dir, "day.db"), start: map[string]crashdisk.Content{}, client: newClient(), storm: newStorm(nil, l.prefix)}
	if l.base == "" {
		return day, nil
	}
	if err := copyFile(l.base, day.file); err != nil { // closed by all who had it
		return nil, err
	}
	body, err := os.ReadFile(day.file)
	day.start[filepath.Base(day.file)] = body
	return day, err
}

func (w *labDay) end() error {
	w.client.close()
	return os.RemoveAll(filepath.Dir(w.file))
}

// serve runs the appliance on the disk for as long as the work takes.
func (w *labDay) serve(ctx context.Context, work func(ctx context.Context, base string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var worked sync.WaitGroup
	var wrong error
	err := w.appliance(ctx, w.file, w.disk.VFS(), w.synchronous, func(base string) error {
		worked.Go(func() { defer cancel(); wrong = work(ctx, base) })
		return nil
	})
	cancel() // if it has ended by itself, nobody answers the work any more
	worked.Wait()
	return errors.Join(wrong, err)
}

// cutPower has orders taken and carried out in this process, cuts the power after every write, truncate, sync and
// removal, in every way that a disk may have it, and has the real program open what is left. It goes on with other
// days until the time is over.
func (l laboratory) cutPower(ctx context.Context, howLong time.Duration) (*toll, error) {
	t := &toll{class: "toll.power"}
	deadline := time.Now().Add(howLong)
	for round := 0; round == 0 || time.Now().Before(deadline); round++ {
		day, err := l.newDay(fmt.Sprint("day", round))
		if err != nil {
			return t, err
		}
		if err := day.live(ctx, uint64(round)); err != nil {
			return t, err
		}
		if err := day.cutEverywhere(ctx, t, uint64(round), deadline); err != nil {
			return t, err
		}
		if err := day.end(); err != nil {
			return t, err
		}
	}
	return t, nil
}

// live is the day: orders alone and side by side, some of them twice, and a restart after half of them.
func (w *labDay) live(ctx context.Context, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 7))
	for half := range 2 {
		err := w.serve(ctx, func(ctx context.Context, base string) error {
			if err := w.client.credit(ctx, base, w.storm.rich(), "50000.00"); err != nil {
				return err
			}
			var wrong []error
			for i := range 6 {
				order := fmt.Sprintf("%sP%d-%d-%d", w.prefix, seed, half, i)
				wrong = append(wrong, w.insist(ctx, base, order, w.storm.body(order, r)))
			}
			wrong = append(wrong, w.together(ctx, base, fmt.Sprintf("%sT%d-%d", w.prefix, seed, half), r))
			return errors.Join(append(wrong, w.settle(ctx))...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// insist sends an order and wants it taken.
func (w *labDay) insist(ctx context.Context, base, order, body string) error {
	a, err := w.post(ctx, base, order, body)
	if err == nil && a.code != 200 {
		err = fmt.Errorf("order %s was answered with %s", order, a)
	}
	return err
}

// post sends an order; a 200 is a promise.
func (w *labDay) post(ctx context.Context, base, order, body string) (answer, error) {
	a, err := w.client.order(ctx, base, body)
	if err != nil || a.code != 200 {
		return a, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.promises = append(w.promises, promise{at: w.disk.At(), order: order, tickets: a.body.Tickets})
	return a, nil
}

// together sends eight orders side by side, each twice: they share commits.
func (w *labDay) together(ctx context.Context, base, name string, r *rand.Rand) error {
	var all sync.WaitGroup
	wrong := make([]error, 16)
	for i := range 8 {
		order := fmt.Sprintf("%s-%d", name, i)
		body := w.storm.body(order, r)
		for j := range 2 {
			all.Go(func() { wrong[2*i+j] = w.insist(ctx, base, order, body) })
		}
	}
	all.Wait()
	return errors.Join(wrong...)
}

// settle waits until all is carried out: from then on the effects must be there too.
func (w *labDay) settle(ctx context.Context) error {
	db, err := store.Open(ctx, w.file, store.Options{MustExist: true, Readers: 1, VFS: w.disk.VFS(), Synchronous: w.synchronous})
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		a, err := db.Query(ctx, `SELECT count(*) FROM outbox WHERE status IN ('pending', 'processing') AND aggregate_id`+among(w.prefix))
		if err != nil {
			return err
		}
		if a.Rows[0][0] == int64(0) {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the orders were not carried out: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range slices.Clone(w.promises) {
		w.promises = append(w.promises, promise{at: w.disk.At(), order: p.order, tickets: p.tickets, settled: true})
	}
	return nil
}

// image is what one cut leaves, and what was promised by then.
type image struct {
	name  string
	files map[string]crashdisk.Content
	after int
}

// cutEverywhere cuts the power after every operation, in every way. If that would take longer than there is time,
// some are left out, evenly.
func (w *labDay) cutEverywhere(ctx context.Context, t *toll, seed uint64, deadline time.Time) error {
	began, r := time.Now(), rand.New(rand.NewPCG(seed, 1))
	log, p, seen := w.disk.Log(), crashdisk.NewPlatter(w.start), map[[32]byte]bool{}
	images := make(chan image)
	var examiners sync.WaitGroup
	wrong := make([]error, runtime.NumCPU())
	for i := range wrong {
		examiners.Go(func() { wrong[i] = w.examineAll(ctx, t, i, images) })
	}
	for i, op := range log {
		p.Do(op)
		if late := time.Since(began).Seconds()/max(deadline.Sub(began).Seconds(), 1) > float64(i+1)/float64(len(log)); late {
			continue
		}
		for _, c := range crashdisk.Cuts {
			im := image{name: fmt.Sprintf("power cut after operation %d of %d, %s", i+1, len(log), c.Name), files: p.Image(c, r), after: i + 1}
			if id := crashdisk.Fingerprint(im.files, w.promisedBy(i+1)); !seen[id] {
				seen[id] = true
				images <- im
			}
		}
	}
	close(images)
	examiners.Wait()
	return errors.Join(wrong...)
}

func (w *labDay) promisedBy(at int) (n int) {
	for _, p := range w.promises {
		if p.at <= at {
			n++
		}
	}
	return n
}

// examineAll examines images until there are no more.
func (w *labDay) examineAll(ctx context.Context, t *toll, examiner int, images <-chan image) (err error) {
	for im := range images {
		if err != nil || ctx.Err() != nil {
			continue // whoever sends them must not wait for ever
		}
		err = w.examine(ctx, t, filepath.Join(filepath.Dir(w.file), fmt.Sprint("image", examiner)), im)
	}
	return errors.Join(err, ctx.Err())
}

// examine has the real program open what is left and compares it with what was promised.
func (w *labDay) examine(ctx context.Context, t *toll, dir string, im image) (err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for name, body := range im.files {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			return err
		}
	}
	acknowledged, settled := w.promised(im.after)
	began := time.Now()
	a, damage := look(ctx, filepath.Join(dir, filepath.Base(w.file)), w.prefix, acknowledged, settled)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.tried++
	t.recovered = append(t.recovered, time.Since(began))
	if damage != nil {
		t.damaged(damage, im.name)
		return nil
	}
	t.count(a, im.name)
	return nil
}

// promised is what was promised by the at-th operation of the disk.
func (w *labDay) promised(at int) (acknowledged map[string][]string, settled map[string]bool) {
	acknowledged, settled = map[string][]string{}, map[string]bool{}
	for _, p := range w.promises {
		if p.at <= at {
			acknowledged[p.order] = p.tickets
			settled[p.order] = settled[p.order] || p.settled
		}
	}
	return acknowledged, settled
}

// look opens a file that a power cut has left, as a start after it would.
func look(ctx context.Context, file, prefix string, acknowledged map[string][]string, settled map[string]bool) (a account, damage error) {
	db, err := store.Open(ctx, file, store.Options{Readers: 1, Synchronous: "OFF", ReadFor: examineFor}) // nobody cuts the power of this one
	if err != nil {
		return a, err
	}
	defer func() { damage = errors.Join(damage, db.Close()) }()
	integrity, err := db.Query(ctx, `PRAGMA integrity_check`)
	if err != nil {
		return a, err
	}
	if text := rowsText(integrity.Rows); text != "ok" {
		return a, errors.New(text)
	}
	return examine(ctx, db, prefix, acknowledged, func(order string) bool { return settled[order] })
}
