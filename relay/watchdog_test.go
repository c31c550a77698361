package relay

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"comanda/store"
)

// causes is what a watchdog sees: "cause" for what is wrong and wedged, "(cause)" for what is wrong and comes
// right by itself, "?cause" for a warning.
func causes(w *Watchdog) string {
	var all []string
	wrong, warnings := w.Look()
	for _, t := range wrong {
		if !t.Wedged {
			t.Cause = "(" + t.Cause + ")"
		}
		all = append(all, t.Cause)
	}
	for _, t := range warnings {
		all = append(all, "?"+t.Cause)
	}
	return strings.Join(all, ", ")
}

func awaitTrue(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// wedge keeps the writer in a transaction until release is called.
func wedge(t *testing.T, db *store.DB) (release func()) {
	t.Helper()
	stuck, over, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = db.Update(context.Background(), func(*store.Tx) error { close(stuck); <-over; return nil })
	}()
	<-stuck
	return sync.OnceFunc(func() { close(over); <-ended })
}

// A wedged writer is seen, logged once, and starves the service manager's watchdog; when it goes on all is well
// again by itself.
func TestWedgedWriterIsSeenAndStarves(t *testing.T) {
	db := openFile(t)
	var fed atomic.Int64
	var log syncBuffer
	w := &Watchdog{DB: db, Log: slog.New(slog.NewTextHandler(&log, nil)), WriterLimit: 30 * time.Millisecond,
		Every: 5 * time.Millisecond, Feed: func() { fed.Add(1) }}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { w.Run(ctx) })
	defer run.Wait()
	defer cancel()
	awaitTrue(t, "food", func() bool { return fed.Load() > 2 })
	release := wedge(t, db)
	defer release()
	awaitTrue(t, "the wedge to be seen", func() bool { return causes(w) == "writer wedged" })
	awaitTrue(t, "the wedge to be told", func() bool { return strings.Contains(log.String(), "writer wedged") })
	before := fed.Load()
	<-time.After(100 * time.Millisecond) // twenty meals
	if after := fed.Load(); after != before {
		t.Errorf("fed %d times though the writer is wedged", after-before)
	}
	release()
	awaitTrue(t, "food again", func() bool { return fed.Load() > before+2 && causes(w) == "" })
	cancel()
	run.Wait()
	if n := strings.Count(log.String(), `msg=watchdog cause="writer wedged"`); n != 1 || !strings.Contains(log.String(), "watchdog: over") {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
}

// A file that another program holds is wrong, and no reason to begin anew: it comes right by itself.
func TestHeldFileStarvesNobody(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir()+"/t.db", store.Options{BusyTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r := newRunner(t, db, nil)
	schedule, _ := ParseSchedule("@every 1s")
	l := NewLoop(r, schedule)
	w := &Watchdog{DB: db, Loop: l, Log: slog.New(slog.DiscardHandler), WriterLimit: 40 * time.Millisecond}
	other := holdFile(t, db)
	awaitTrue(t, "the lock to be felt", func() bool {
		return errors.Is(db.Update(t.Context(), (*store.Tx).Touch), store.ErrBusy) && causes(w) == "(file held)"
	})
	l.pulse.began = l.pulse.began.Add(-time.Hour) // the loop is late for the same reason
	if got := causes(w); got != "(file held), (relay stalled)" {
		t.Errorf("saw %s", got)
	}
	other()
	if err := db.Update(t.Context(), (*store.Tx).Touch); err != nil {
		t.Fatal(err)
	}
	if got := causes(w); got != "relay stalled" {
		t.Errorf("saw %s", got)
	}
}

// A relay's goroutine that panics, or ends without a word, is begun again and carries on; that is told for a while.
func TestRelayIsBegunAgain(t *testing.T) {
	for name, fall := range map[string]func(){"panic": func() { panic("loose wire") }, "end": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			db := openFile(t)
			put(t, db, 1)
			var claims atomic.Int32
			carried := make(chan struct{}, 1)
			r := newRunner(t, db, func(context.Context, store.Work) error { carried <- struct{}{}; return nil }, func(o *Options) {
				o.Lease = 300 * time.Millisecond
				o.Crash = func(point string) {
					if point == "relay.claimed" && claims.Add(1) == 1 {
						fall()
					}
				}
			})
			l, _ := startLoop(t, r)
			w := &Watchdog{DB: db, Loop: l, Log: slog.New(slog.DiscardHandler)}
			awaitTrue(t, "the fall to be told", func() bool { return causes(w) == "?relay panicked" })
			if words := w.Conditions()[0].Detail; !strings.Contains(words, "begun again") {
				t.Error(words)
			}
			awaitN(t, carried, 1)
			l.falls.last = l.falls.last.Add(-fallsTold)
			if got := causes(w); got != "" {
				t.Errorf("still told: %s", got)
			}
		})
	}
}

// A relay that falls again and again does not come round: it is late after three periods, and wedged.
func TestRelayThatKeepsFallingIsLate(t *testing.T) {
	db := openFile(t)
	put(t, db, 1)
	r := newRunner(t, db, nil, func(o *Options) {
		o.Lease = time.Millisecond
		o.Crash = func(string) { panic("broken wire") }
	})
	schedule, _ := ParseSchedule("@every 20s")
	l := NewLoop(r, schedule)
	if l.limit() != time.Minute {
		t.Errorf("limit %v, want three periods", l.limit())
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = l.Run(ctx) })
	w := &Watchdog{DB: db, Loop: l, Log: slog.New(slog.DiscardHandler)}
	awaitTrue(t, "it to fall twice", func() bool { n, _ := l.falls.recent(time.Hour); return n >= 2 })
	cancel()
	run.Wait()
	l.pulse.began = l.pulse.began.Add(-61 * time.Second) // stands for the time that it took
	if got := causes(w); got != "relay stalled, ?relay panicked" {
		t.Errorf("saw %s", got)
	}
}

// A service manager is fed by the loop's coming round: while an effect does not return it starves, and when the
// loop comes round again it is fed.
func TestStalledLoopStarves(t *testing.T) {
	db := openFile(t)
	put(t, db, 1)
	begun, release := make(chan struct{}), make(chan struct{})
	r := newRunner(t, db, nil, func(o *Options) {
		o.Crash = func(at string) {
			if at == "relay.claimed" {
				close(begun)
				<-release
			}
		}
	})
	schedule, _ := ParseSchedule("@every 20s")
	l := NewLoop(r, schedule)
	var fed atomic.Int64
	w := &Watchdog{DB: db, Loop: l, Log: slog.New(slog.DiscardHandler), Every: time.Millisecond, Feed: func() { fed.Add(1) }}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	defer run.Wait()
	defer cancel()
	run.Go(func() { _ = l.Run(ctx) })
	<-begun
	l.pulse.began = l.pulse.began.Add(-61 * time.Second) // stands for the time that it took
	run.Go(func() { w.Run(ctx) })
	awaitTrue(t, "the stall to be seen", func() bool { return causes(w) == "relay stalled" })
	<-time.After(50 * time.Millisecond) // fifty meals
	if n := fed.Load(); n != 0 {
		t.Errorf("fed %d times though the loop stands still", n)
	}
	close(release)
	awaitTrue(t, "food", func() bool { return fed.Load() > 2 })
}

// A lane that waits for an answer within its time is not late, one whose passes fail or do not end is.
func TestLateLane(t *testing.T) {
	db := openFile(t)
	r := newRunner(t, db, nil, func(o *Options) {
		o.Remotes = []Remote{{Name: "test", Timeout: time.Minute, Rate: 0.1}}
	})
	schedule, _ := ParseSchedule("@every 10s")
	l := NewLoop(r, schedule)
	w := &Watchdog{DB: db, Loop: l, Log: slog.New(slog.DiscardHandler)}
	lane := r.lanes[0]
	lane.pulse.began = lane.pulse.began.Add(-leastLimit - 100*time.Second) // a send, a lookup and the pace are under way
	if got := causes(w); got != "" {
		t.Errorf("saw %s", got)
	}
	lane.pulse.began = lane.pulse.began.Add(-40 * time.Second)
	if got := causes(w); got != "relay stalled" {
		t.Errorf("saw %q", got)
	}
	if words := w.Conditions()[0].Detail; !strings.HasPrefix(words, "the lane of target test has not come round for 2m50s") {
		t.Error(words)
	}
	lane.pulse.beat()
	if got := causes(w); got != "" {
		t.Errorf("saw %s", got)
	}
}

// What the watchdog sees is told though the file is stuck.
func TestAlertThoughTheWriterIsWedged(t *testing.T) {
	db, p := openFile(t), &pager{}
	if err := db.Update(t.Context(), func(*store.Tx) error { return store.ErrFull }); !errors.Is(err, store.ErrFull) {
		t.Fatal(err) // so that the look at the file tries a commit
	}
	release := wedge(t, db)
	defer release()
	w := &Watchdog{DB: db, Log: slog.New(slog.DiscardHandler), WriterLimit: time.Millisecond}
	a := &Alerts{DB: db, Tell: p.tell, Watch: w.Conditions, Log: slog.New(slog.DiscardHandler), Every: 50 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { a.Run(ctx) })
	var heard strings.Builder
	awaitTrue(t, "the alert", func() bool {
		heard.WriteString(p.take())
		return strings.Contains(heard.String(), "onset writer wedged")
	})
	release()
	awaitTrue(t, "its end", func() bool {
		heard.WriteString(p.take())
		return strings.Contains(heard.String(), "over writer wedged")
	})
	cancel()
	run.Wait()
}

// A disk that fills up is told at each mark, by the log and without the file, and so is its end; one that does not
// answer is told too.
func TestFullDiskIsTold(t *testing.T) {
	var used atomic.Int64
	silent := make(chan struct{})
	db, err := store.Open(t.Context(), t.TempDir()+"/t.db", store.Options{Space: func(string) (store.Space, error) {
		if used.Load() < 0 {
			<-silent
		}
		return store.Space{Used: int(used.Load())}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p, log := &pager{}, &syncBuffer{}
	w := &Watchdog{DB: db, Log: slog.New(slog.NewTextHandler(log, nil)), Every: time.Millisecond, WriterLimit: 300 * time.Millisecond}
	a := &Alerts{DB: db, Tell: p.tell, Watch: w.Conditions, Log: slog.New(slog.DiscardHandler), Every: 5 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { w.Run(ctx) })
	run.Go(func() { a.Run(ctx) })
	defer run.Wait()
	defer cancel()
	for _, step := range []struct {
		used       int64
		sees, told string
	}{{95, "?disk nearly full", "onset disk nearly full"}, {98, "?disk too full", "onset disk too full"}, {94, "", "over disk too full"}, {-1, "(disk silent)", "onset disk silent"}} {
		used.Store(step.used)
		awaitTrue(t, step.sees, func() bool { return causes(w) == step.sees })
		_, cause, _ := strings.Cut(step.told, " ")
		awaitTrue(t, "a line of the log", func() bool { return strings.Contains(log.String(), cause) })
		heard := ""
		awaitTrue(t, step.told, func() bool { heard += p.take(); return strings.Contains(heard, step.told) })
		if tight := step.used >= 98; step.used >= 0 && db.Tight() != tight {
			t.Errorf("at %d %%: tight %v", step.used, db.Tight())
		}
	}
	used.Store(50)
	close(silent)
	awaitTrue(t, "all to be well", func() bool { return causes(w) == "" })
	awaitTrue(t, "its onset and its end in the log, once each", func() bool { return strings.Count(log.String(), "cause=\"disk nearly full\"") == 2 })
}

// syncBuffer is a log that several goroutines write to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
