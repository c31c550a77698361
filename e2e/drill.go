package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"comanda/store"
)

// DrillConfig says what a drill runs on and for how long.
type DrillConfig struct {
	Exe    string        // the built program
	DB     string        // the shop's file; it is read once and not touched
	Dir    string        // where the copy lies for the time of the drill; empty means beside the file
	Time   time.Duration // for the kills and the power cuts together
	JSON   bool
	Stdout io.Writer

	Appliance Appliance
}

// DrillReport is what came of a drill.
type DrillReport struct {
	File       string         `json:"file"`
	Bytes      int64          `json:"bytes"`
	Filesystem string         `json:"filesystem"`
	Volatile   bool           `json:"volatile"` // kept in memory: the figures say nothing of a power cut
	Sync       SyncReport     `json:"sync"`
	Kills      int            `json:"kills"`
	KillsAt    map[string]int `json:"kills_at"` // crash point, or "at any time" → kills
	Cuts       int            `json:"power_cuts"`
	CutsOn     string         `json:"power_cuts_on"` // "copy", or "new file" where the copy is too large
	Orders     int            `json:"orders"`        // acknowledged while processes were killed
	Again      int            `json:"sent_again"`    // answers to orders that were sent again
	Lost       int            `json:"lost"`
	Doubled    int            `json:"doubled"`
	Corrupt    int            `json:"corrupt"` // files that could not be opened or are damaged
	Broken     int            `json:"broken"`  // invariants that do not hold, and what is there by half
	Found      []string       `json:"found"`   // the first faults, in words
	Warnings   []string       `json:"warnings"`
}

// SyncReport is how long the disk takes to say that 4 KiB are on it.
type SyncReport struct {
	Times   int           `json:"times"`
	Median  time.Duration `json:"median_ns"`
	P99     time.Duration `json:"p99_ns"`
	TooFast bool          `json:"too_fast"` // no disk does that: it is not on it
}

// held reports whether every promise was kept.
func (r *DrillReport) held() bool { return r.Lost+r.Doubled+r.Corrupt+r.Broken+len(r.Found) == 0 }

func (r *DrillReport) add(t *toll) {
	r.Lost, r.Doubled, r.Corrupt, r.Broken = r.Lost+t.lost, r.Doubled+t.doubled, r.Corrupt+t.corrupt, r.Broken+t.broken
	r.Found = append(r.Found, t.found...)
}

// drill is one drill while it runs.
type drill struct {
	DrillConfig
	dir    string // the scratch directory
	copied string
	prefix string // of every order of the drill
	r      *DrillReport
}

// Drill copies a shop's file to a scratch directory on the same disk and tries on the copy what a shop must survive:
// processes killed at every point of an order's walk, the power cut after any write, and how long a sync takes. The
// copy is marked as the lab's before anything runs on it. It returns an error when something was lost, doubled or
// damaged; the text says what.
func Drill(ctx context.Context, c DrillConfig) error {
	if !canProve {
		return errors.New("the drill kills processes by signals that this system does not have: run it on Linux, macOS or a BSD")
	}
	if c.Dir == "" {
		c.Dir = filepath.Dir(c.DB)
	}
	dir, err := os.MkdirTemp(c.Dir, ".comanda-drill-")
	if err != nil {
		return fmt.Errorf("no directory for the copy can be made in %s (%w): give --dir another place", c.Dir, err)
	}
	defer os.RemoveAll(dir)
	d := &drill{DrillConfig: c, dir: dir, copied: filepath.Join(dir, "copy.db"), prefix: fmt.Sprintf("DRILL-%d-", time.Now().Unix()), r: &DrillReport{File: c.DB, KillsAt: map[string]int{}, Found: []string{}, Warnings: []string{}}}
	for _, step := range []func(context.Context) error{d.copy, d.probeSync, d.powerCuts, d.kills} {
		if err := step(ctx); err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("the drill was interrupted; the file was not touched: %w", ctx.Err())
			}
			return err
		}
	}
	return d.report()
}

// roomFor is what the copy may grow by while the drill sends orders to it, in bytes.
const roomFor = 256 << 20

// copy makes the private copy and marks it as the lab's.
func (d *drill) copy(ctx context.Context) error {
	bytes, err := sizeOf(d.DB)
	if err != nil {
		return err
	}
	if disk, err := store.SpaceUnder(d.dir); err == nil {
		d.r.Filesystem, d.r.Volatile = disk.Filesystem, disk.Volatile()
		if need := uint64(bytes) + roomFor; disk.Free < need {
			return fmt.Errorf("the drill needs %d MiB free in %s and finds %d: make room, or give --dir another place", need>>20, d.Dir, disk.Free>>20)
		}
	}
	if d.r.Volatile {
		d.warn("the copy lies on tmpfs, which is kept in memory: what these figures say of syncs and power cuts is not true of a disk")
	}
	if where, err := filepath.Abs(d.Dir); err == nil && !sameFilesystem(where, filepath.Dir(d.DB)) {
		d.warn("the copy lies on another disk than the file: its syncs are not those of the shop's disk")
	}
	if err := store.Copy(ctx, d.DB, d.copied); err != nil {
		return err
	}
	if d.r.Bytes, err = sizeOf(d.copied); err != nil {
		return err
	}
	db, err := store.Open(ctx, d.copied, store.Options{ReadFor: examineFor})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Update(ctx, func(tx *store.Tx) error { return tx.MarkLab("drill") }); err != nil {
		return fmt.Errorf("mark the copy as the lab's: %w", err)
	}
	var before account
	if err := before.checkInvariants(ctx, db); err != nil {
		return fmt.Errorf("look at the copy: %w", err)
	}
	if len(before.broken) > 0 {
		return fmt.Errorf("an invariant does not hold in this file before anything was done to the copy: `comanda doctor` says which; the query was\n%s", before.broken[0])
	}
	if !d.JSON {
		fmt.Fprintf(d.Stdout, "drill on a private copy of %s (%s, %s), in the lab: no target can be reached\n", d.DB, size(d.r.Bytes), d.r.Filesystem)
	}
	return nil
}

// sizeOf is how many bytes a file and its -wal have.
func sizeOf(file string) (int64, error) {
	st, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("there is no file %s: give --db a shop's file", file)
	}
	if err != nil {
		return 0, fmt.Errorf("look at the file: %w", err)
	}
	bytes := st.Size()
	if wal, err := os.Stat(file + "-wal"); err == nil {
		bytes += wal.Size()
	}
	return bytes, nil
}

func (d *drill) warn(text string) { d.r.Warnings = append(d.r.Warnings, text) }

// How the syncs are timed.
const (
	syncsAtMost  = 500
	syncsAtOnce  = 10
	syncTimeMost = 3 * time.Second
)

func (d *drill) probeSync(context.Context) error {
	var all []time.Duration
	for began := time.Now(); len(all) < syncsAtMost && time.Since(began) < syncTimeMost; {
		times, err := store.TimeSyncs(d.dir, syncsAtOnce)
		if err != nil {
			return fmt.Errorf("time a sync: %w", err)
		}
		all = append(all, times...)
	}
	d.r.Sync = syncReport(all)
	if d.r.Sync.TooFast && !d.r.Volatile {
		d.warn(fmt.Sprintf("a sync took %s: too fast to be true. The disk, or what lies between it and this program, says that a write is safe before it is; a power cut may take acknowledged orders", d.r.Sync.Median))
	}
	d.progress("sync", fmt.Sprintf("%d times 4 KiB: %s in the middle, p99 %s", d.r.Sync.Times, short(d.r.Sync.Median), short(d.r.Sync.P99)))
	return nil
}

func (d *drill) progress(what, text string) {
	if !d.JSON {
		fmt.Fprintf(d.Stdout, "  %-11s %s\n", what, text)
	}
}

// largestImage is up to what size the copy itself is cut; each power cut has the whole file written and looked at.
const largestImage = 8 << 20

// powerCuts comes before the kills, on a copy that is still small.
func (d *drill) powerCuts(ctx context.Context) error {
	lab := laboratory{appliance: d.Appliance, dir: d.dir, base: d.copied, prefix: d.prefix}
	d.r.CutsOn = "copy"
	if st, err := os.Stat(d.copied); err != nil {
		return err
	} else if st.Size() > largestImage {
		d.r.CutsOn, lab.base = "new file", ""
		d.warn(fmt.Sprintf("the file is larger than %s: the power was cut on a new file beside the copy instead", size(largestImage)))
	}
	t, err := lab.cutPower(ctx, d.Time/2)
	if err != nil {
		return err
	}
	d.r.Cuts = t.tried
	d.r.add(t)
	d.progress("power cuts", fmt.Sprintf("%s, on the %s; opened and looked through in %s", thousands(t.tried), d.r.CutsOn, t.recovery(words{})))
	return nil
}

func (d *drill) kills(ctx context.Context) error {
	p := newProof(Config{Exe: d.Exe, JSON: true}, entry{name: "copy"}, d.dir)
	defer func() { p.end(ctx) }()
	k, err := killAll(ctx, p, d.prefix, d.Time/2)
	if err != nil {
		return err
	}
	d.r.Kills, d.r.KillsAt, d.r.Orders, d.r.Again = k.tried, k.at, len(k.acknowledged), k.resent
	d.r.add(&k.toll)
	d.progress("kills", wrap(fmt.Sprintf("%s; %s orders acknowledged, %s answers to orders that were sent again; listening again in %s",
		k.where(words{}), thousands(d.r.Orders), thousands(d.r.Again), k.recovery(words{})), 14))
	return nil
}

// report prints what came of it and returns an error if a promise was not kept.
func (d *drill) report() error {
	if d.JSON {
		e := json.NewEncoder(d.Stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(d.r); err != nil {
			return fmt.Errorf("print the report: %w", err)
		}
	} else {
		for _, w := range d.r.Warnings {
			d.progress("warning", wrap(w, 14))
		}
		for _, f := range d.r.Found {
			d.progress("✗", f)
		}
		fmt.Fprintln(d.Stdout, d.r)
	}
	if !d.r.held() {
		return errors.New("the drill found a promise that was not kept: do not take orders with this file on this machine before you know why")
	}
	return nil
}

// String is the whole drill in a line.
func (r *DrillReport) String() string {
	text := fmt.Sprintf("%s kills · %s power cuts · %d lost · %d doubled", thousands(r.Kills), thousands(r.Cuts), r.Lost, r.Doubled)
	if r.Corrupt+r.Broken > 0 {
		text += fmt.Sprintf(" · %d damaged · %d in part", r.Corrupt, r.Broken)
	}
	text += fmt.Sprintf(" · this disk syncs in %s (p99 %s)", short(r.Sync.Median), short(r.Sync.P99))
	if r.Volatile {
		text += " · on tmpfs"
	}
	return text
}
