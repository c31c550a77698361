package e2e

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
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

// largestImage is up to what size the copy itself is cut; each power cut has the whole file written and looked at.
const largestImage = 8 << 20

// promise is something that must be there for ever from the at-th operation of the disk on.
type promise struct {
	at      int
	order   string
	tickets []string
	settled bool // its effects too
}

// powerDay is a day of orders on a disk that takes down what it is told, for the power to be cut anywhere in it.
type powerDay struct {
	d      *drill
	disk   *crashdisk.Disk
	file   string
	start  map[string]crashdisk.Content
	client *client

	mu       sync.Mutex
	promises []promise
}

// powerMatrix has orders taken and carried out in this process, cuts the power after every write, truncate, sync and
// removal, in every way that a disk may have it, and has the real program open what is left.
func (d *drill) powerMatrix(ctx context.Context) error {
	d.r.CutsOn = "copy"
	st, err := os.Stat(d.copied)
	if err != nil {
		return err
	}
	if st.Size() > largestImage {
		d.r.CutsOn = "new file"
		d.warn(fmt.Sprintf("the file is larger than %s: the power was cut on a new file beside the copy instead", size(largestImage)))
	}
	deadline := time.Now().Add(d.Time / 2)
	for round := 0; round == 0 || time.Now().Before(deadline); round++ {
		day, err := d.newPowerDay(round)
		if err != nil {
			return err
		}
		if err := day.live(ctx, uint64(round)); err != nil {
			return err
		}
		if err := day.cutEverywhere(ctx, uint64(round), deadline); err != nil {
			return err
		}
		if err := os.RemoveAll(filepath.Dir(day.file)); err != nil {
			return err
		}
	}
	d.progress("power cuts", fmt.Sprintf("%s, on the %s", thousands(d.r.Cuts), d.r.CutsOn))
	return nil
}

// newPowerDay puts the copy, or nothing, on a new disk.
func (d *drill) newPowerDay(round int) (*powerDay, error) {
	disk, err := crashdisk.New()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(d.dir, fmt.Sprint("day", round))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	day := &powerDay{d: d, disk: disk, file: filepath.Join(dir, "day.db"), start: map[string]crashdisk.Content{}, client: newClient()}
	if d.r.CutsOn == "new file" {
		return day, nil
	}
	if err := copyFile(d.copied, day.file); err != nil { // closed by all who had it
		return nil, err
	}
	body, err := os.ReadFile(day.file)
	day.start[filepath.Base(day.file)] = body
	return day, err
}

// live is the day: orders alone and side by side, some of them twice, and a restart after half of them.
func (w *powerDay) live(ctx context.Context, seed uint64) error {
	defer w.client.close()
	s := newStorm(nil, w.d.prefix)
	r := rand.New(rand.NewPCG(seed, 7))
	for half := range 2 {
		err := w.serve(ctx, func(ctx context.Context, base string) error {
			if err := w.client.credit(ctx, base, s.rich(), "50000.00"); err != nil {
				return err
			}
			var wrong []error
			for i := range 6 {
				wrong = append(wrong, w.order(ctx, base, fmt.Sprintf("%sP%d-%d-%d", w.d.prefix, seed, half, i), s, r))
			}
			wrong = append(wrong, w.together(ctx, base, fmt.Sprintf("%sT%d-%d", w.d.prefix, seed, half), s, r))
			return errors.Join(append(wrong, w.settle(ctx))...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// serve runs the appliance on the disk for as long as the work takes.
func (w *powerDay) serve(ctx context.Context, work func(ctx context.Context, base string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	worked := make(chan error, 1)
	err := w.d.Appliance(ctx, w.file, w.disk.VFS(), func(base string) error {
		go func() { worked <- work(ctx, base); cancel() }()
		return nil
	})
	if err != nil {
		return err
	}
	return <-worked
}

func (w *powerDay) order(ctx context.Context, base, order string, s *storm, r *rand.Rand) error {
	return w.post(ctx, base, order, s.body(order, r))
}

func (w *powerDay) post(ctx context.Context, base, order, body string) error {
	a, err := w.client.order(ctx, base, body)
	if err != nil || a.code != 200 {
		return fmt.Errorf("an order of the drill was answered with %s: %w", a, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.promises = append(w.promises, promise{at: w.disk.At(), order: order, tickets: a.body.Tickets})
	return nil
}

// together sends orders side by side, each twice: they share commits.
func (w *powerDay) together(ctx context.Context, base, name string, s *storm, r *rand.Rand) error {
	var all sync.WaitGroup
	wrong := make([]error, 16)
	for i := range wrong {
		order := fmt.Sprintf("%s-%d", name, i/2)
		body := s.body(order, rand.New(rand.NewPCG(r.Uint64(), uint64(i/2))))
		if i%2 == 1 {
			continue
		}
		for j := range 2 {
			all.Go(func() { wrong[i+j] = w.post(ctx, base, order, body) })
		}
	}
	all.Wait()
	return errors.Join(wrong...)
}

// settle waits until all is carried out: from then on the effects must be there too.
func (w *powerDay) settle(ctx context.Context) error {
	db, err := store.Open(ctx, w.file, store.Options{MustExist: true, Readers: 1, VFS: w.disk.VFS()})
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		a, err := db.Query(ctx, `SELECT count(*) FROM outbox WHERE status IN ('pending', 'processing') AND aggregate_id`+among(w.d.prefix))
		if err != nil {
			return err
		}
		if a.Rows[0][0] == int64(0) {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the drill's orders were not carried out: %w", ctx.Err())
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
func (w *powerDay) cutEverywhere(ctx context.Context, seed uint64, deadline time.Time) error {
	began, r := time.Now(), rand.New(rand.NewPCG(seed, 1))
	log, p, seen := w.disk.Log(), crashdisk.NewPlatter(w.start), map[[32]byte]bool{}
	images := make(chan image)
	var examiners sync.WaitGroup
	wrong := make([]error, runtime.NumCPU())
	for i := range wrong {
		examiners.Go(func() { wrong[i] = w.examineAll(ctx, i, images) })
	}
	for i, op := range log {
		p.Do(op)
		if late := time.Since(began).Seconds()/max(deadline.Sub(began).Seconds(), 1) > float64(i+1)/float64(len(log)); late {
			continue
		}
		for _, c := range crashdisk.Cuts {
			im := image{name: fmt.Sprintf("power cut after operation %d of %d, %s", i+1, len(log), c.Name), files: p.Image(c, r), after: i + 1}
			if id := fingerprint(im.files, w.promisedBy(i+1)); !seen[id] {
				seen[id] = true
				images <- im
			}
		}
	}
	close(images)
	examiners.Wait()
	return errors.Join(wrong...)
}

func (w *powerDay) promisedBy(at int) (n int) {
	for _, p := range w.promises {
		if p.at <= at {
			n++
		}
	}
	return n
}

func fingerprint(files map[string]crashdisk.Content, promised int) (id [32]byte) {
	h := sha256.New()
	fmt.Fprintln(h, promised)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintln(h, name, len(files[name]))
		h.Write(files[name])
	}
	h.Sum(id[:0])
	return id
}

// examineAll examines images until there are no more.
func (w *powerDay) examineAll(ctx context.Context, examiner int, images <-chan image) (err error) {
	for im := range images {
		if err != nil || ctx.Err() != nil {
			continue // whoever sends them must not wait for ever
		}
		err = w.examine(ctx, filepath.Join(filepath.Dir(w.file), fmt.Sprint("image", examiner)), im)
	}
	return errors.Join(err, ctx.Err())
}

// examine has the real program open what is left and compares it with what was promised.
func (w *powerDay) examine(ctx context.Context, dir string, im image) (err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for name, body := range im.files {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			return err
		}
	}
	acknowledged, settled := map[string][]string{}, map[string]bool{}
	for _, p := range w.promises {
		if p.at <= im.after {
			acknowledged[p.order] = p.tickets
			settled[p.order] = settled[p.order] || p.settled
		}
	}
	a, damage := look(ctx, filepath.Join(dir, filepath.Base(w.file)), w.d.prefix, acknowledged, settled)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.d.r.Cuts++
	if damage != nil {
		w.d.r.Corrupt++
		w.d.r.find("%s: %v", im.name, damage)
		return nil
	}
	w.d.count(a, im.name)
	return nil
}

// look opens a file that a power cut has left, as a start after it would.
func look(ctx context.Context, file, prefix string, acknowledged map[string][]string, settled map[string]bool) (a account, damage error) {
	db, err := store.Open(ctx, file, store.Options{Readers: 1, Synchronous: "OFF"}) // nobody cuts the power of this one
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
