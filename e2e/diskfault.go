package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"comanda/store/crashdisk"
)

// diskFault is one way in which a disk fails.
type diskFault struct {
	name string
	op   crashdisk.Kind
	says crashdisk.Verdict
}

var diskFaults = []diskFault{
	{"a write fails", crashdisk.Write, crashdisk.Verdict{Code: crashdisk.WriteError}},
	{"a write finds no room", crashdisk.Write, crashdisk.Verdict{Code: crashdisk.Full}},
	{"a write is done by half", crashdisk.Write, crashdisk.Verdict{Code: crashdisk.WriteError, Short: true}},
	{"a sync fails", crashdisk.Sync, crashdisk.Verdict{Code: crashdisk.SyncError}},
	{"a read fails", crashdisk.Read, crashdisk.Verdict{Code: crashdisk.ReadError}},
}

// strike fails the nth of its operations, once or from then on.
func (f diskFault) strike(nth int, forGood bool) (fault crashdisk.Fault, struck func() bool) {
	n := 0
	return func(op crashdisk.Op) crashdisk.Verdict {
		if op.Kind != f.op {
			return crashdisk.Verdict{}
		}
		if n++; n == nth || forGood && n > nth {
			return f.says
		}
		return crashdisk.Verdict{}
	}, func() bool { return n >= nth }
}

// breakDisk has orders sent to a server whose disk fails, at one operation after the other, once or until it is well
// again. An order is taken or told to come again; then the disk is well, all are sent until they are taken, by the
// same server, and carried out. A failure of the reads of a program that starts is not among them: it says so and ends.
func (l laboratory) breakDisk(ctx context.Context, howLong time.Duration) (once, forGood *toll, err error) {
	once, forGood = &toll{class: "toll.disk-once"}, &toll{class: "toll.disk-for-good"}
	deadline := time.Now().Add(howLong)
	for next, struck := 1, true; struck && time.Now().Before(deadline); next += 2 {
		var days []*faultyDay
		var all sync.WaitGroup
		for i := range 2 * len(diskFaults) {
			for _, t := range []*toll{once, forGood} {
				day := &faultyDay{fault: diskFaults[i/2], nth: next + i%2, forGood: t == forGood, total: t}
				days = append(days, day)
				all.Go(func() { day.err = l.tryFault(ctx, day) }) // they mostly wait: for a relay that tries again in a second
			}
		}
		all.Wait()
		struck = false
		for _, day := range days {
			if day.err != nil {
				return once, forGood, fmt.Errorf("%s: %w", day, day.err)
			}
			day.total.add(&day.own)
			struck = struck || day.struck
		}
	}
	return once, forGood, nil
}

// faultyDay is a day with one fault.
type faultyDay struct {
	fault   diskFault
	nth     int
	forGood bool
	total   *toll // to which its own is added

	struck bool // the disk came to the nth operation
	own    toll
	err    error
}

func (d *faultyDay) String() string {
	how := "once"
	if d.forGood {
		how = "until the disk is well"
	}
	return fmt.Sprintf("%s, number %d, %s", d.fault.name, d.nth, how)
}

func (l laboratory) tryFault(ctx context.Context, d *faultyDay) error {
	day, err := l.newDay(strings.ReplaceAll(d.String(), " ", "-"))
	if err != nil {
		return err
	}
	return errors.Join(day.bear(ctx, d), day.end())
}

const ordersPerFault = 6

// bear sends orders while the disk fails, and again when it is well.
func (w *labDay) bear(ctx context.Context, d *faultyDay) error {
	err := w.serve(ctx, func(ctx context.Context, base string) error {
		if err := w.client.credit(ctx, base, w.storm.rich(), "50000.00"); err != nil {
			return err
		}
		fault, struck := d.fault.strike(d.nth, d.forGood)
		w.disk.Break(fault)
		for i := range ordersPerFault {
			if wrong := w.ask(ctx, base, i); wrong != "" {
				d.own.find("%s: %s", d, wrong)
			}
		}
		w.disk.Break(nil)
		if d.struck = struck(); !d.struck {
			return nil
		}
		d.own.tried++
		began := time.Now()
		for i := range ordersPerFault {
			if err := w.untilTaken(ctx, base, i); err != nil {
				return err
			}
			if i == 0 {
				d.own.recovered = append(d.own.recovered, time.Since(began))
			}
		}
		return w.settle(ctx)
	})
	if err != nil || !d.struck {
		return err
	}
	acknowledged, settled := w.promised(w.disk.At())
	a, damage := look(ctx, w.file, w.prefix, acknowledged, settled)
	if damage != nil {
		d.own.damaged(damage, d.String())
		return nil
	}
	d.own.count(a, d.String())
	return nil
}

// ask sends an order once. It must be taken, or told to come again.
func (w *labDay) ask(ctx context.Context, base string, i int) (wrong string) {
	a, err := w.post(ctx, base, w.name(i), w.bodyOf(i))
	switch {
	case err != nil:
		return err.Error()
	case a.code != http.StatusOK && a.code != http.StatusServiceUnavailable:
		return fmt.Sprintf("an order was answered with %s", a)
	case a.code == http.StatusServiceUnavailable && (!strings.Contains(a.text, `"detail"`) || a.retryAfter == ""):
		return fmt.Sprintf("an order was turned away without a reason or a time to come again: %s", a)
	}
	return ""
}

func (w *labDay) name(i int) string { return fmt.Sprintf("%sF%d", w.prefix, i) }

func (w *labDay) bodyOf(i int) string {
	return w.storm.body(w.name(i), rand.New(rand.NewPCG(uint64(i), 3)))
}

// untilTaken sends an order again and again until it is taken.
func (w *labDay) untilTaken(ctx context.Context, base string, i int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		a, err := w.post(ctx, base, w.name(i), w.bodyOf(i))
		if err != nil {
			return err
		}
		if a.code == http.StatusOK {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the disk is well and orders are still not taken: %s", a)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
