package relay

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"comanda/store"
)

func calendar(t *testing.T, spec string) cron.Schedule {
	t.Helper()
	s, err := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keptCare is a Care with one task that only counts, and a clock that a test sets.
type keptCare struct {
	Care
	now  time.Time
	runs []time.Time // when, by that clock
}

func newCare(t *testing.T, db *store.DB, spec string, at time.Time) *keptCare {
	t.Helper()
	k := &keptCare{now: at}
	k.Care = Care{
		DB: db, Schedule: calendar(t, spec), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return k.now },
		Again: time.Millisecond, Tries: 3,
		Tasks: []Task{{"count", func(context.Context) (string, error) { k.runs = append(k.runs, k.now); return "counted", nil }}},
	}.withDefaults()
	return k
}

// at sets the clock and looks.
func (k *keptCare) at(t *testing.T, at time.Time, wantRuns int) {
	t.Helper()
	k.now = at
	k.look(t.Context(), k.Tasks[0])
	if len(k.runs) != wantRuns {
		t.Fatalf("at %s: %d runs %v, want %d", at, len(k.runs), k.runs, wantRuns)
	}
}

func taskRuns(t *testing.T, db *store.DB) (runs []store.TaskRun) {
	t.Helper()
	if err := db.View(t.Context(), func(tx *store.Tx) (err error) {
		runs, err = tx.TaskRuns(1000)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return runs
}

var someDay = time.Date(2027, 5, 10, 9, 0, 0, 0, time.UTC)

// A program that is started anew every 50 s runs its hourly task on time all the same.
func TestTaskRunsThoughRestartsAreFrequent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	var runs []time.Time
	for at := someDay.Add(10 * time.Minute); at.Before(someDay.Add(70 * time.Minute)); at = at.Add(50 * time.Second) {
		db, err := store.Open(t.Context(), path, store.Options{Readers: 1})
		if err != nil {
			t.Fatal(err)
		}
		k := newCare(t, db, "0 * * * *", at)
		k.look(t.Context(), k.Tasks[0])
		runs = append(runs, k.runs...)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	hour := someDay.Add(time.Hour)
	if len(runs) != 1 || runs[0].Sub(hour).Abs() > 50*time.Second {
		t.Errorf("ran at %v, want once and within 50 s of %s", runs, hour)
	}
}

// What was missed while the machine was off is made up for once, however many nights it was.
func TestMissedNightsAreMadeUpForOnce(t *testing.T) {
	db := openFile(t)
	k := newCare(t, db, "30 3 * * *", someDay)
	k.at(t, someDay, 0) // new here: nothing was missed
	week := someDay.Add(7 * 24 * time.Hour)
	k.at(t, week, 1)
	for range 50 {
		k.at(t, week, 1)
	}
	k.at(t, week.Add(24*time.Hour), 2)
}

// A box without a clock of its own boots in 1970 and is set to today: one run, no storm.
func TestClockSteppedFrom1970(t *testing.T) {
	db := openFile(t)
	boot := time.Unix(42, 0).UTC()
	k := newCare(t, db, "30 3 * * *", boot)
	k.at(t, boot, 0)
	k.at(t, boot.Add(time.Minute), 0)
	k.at(t, someDay, 1)
	for i := range 100 {
		k.at(t, someDay.Add(time.Duration(i)*time.Second), 1)
	}
	k.at(t, boot.Add(2*time.Minute), 1) // the next boot, again without a clock
	k.at(t, someDay.Add(time.Hour), 1)  // that night's run is known
	k.at(t, someDay.Add(24*time.Hour), 2)
}

// A clock that is set back over a tick does not run it again.
func TestClockSetBackRunsNothingTwice(t *testing.T) {
	db := openFile(t)
	k := newCare(t, db, "30 3 * * *", someDay)
	k.at(t, someDay, 0)
	night := time.Date(2027, 5, 11, 3, 30, 1, 0, time.UTC)
	k.at(t, night, 1)
	for back := range 5 {
		k.at(t, night.Add(-time.Duration(back)*time.Hour), 1)
	}
	k.at(t, night.Add(time.Minute), 1)
	k.at(t, night.Add(24*time.Hour), 2)
}

// A clock that once stood a year ahead silences nothing for that year.
func TestClockAheadAndBackIsNotSilent(t *testing.T) {
	db := openFile(t)
	k := newCare(t, db, "30 3 * * *", someDay)
	k.at(t, someDay, 0)
	k.at(t, someDay.AddDate(1, 0, 0), 1)
	k.at(t, someDay.Add(time.Hour), 1)
	for night := range 3 {
		k.at(t, someDay.Add(time.Duration(night+1)*24*time.Hour), night+2)
	}
	fresh := openFile(t) // the same for a file that was made while the clock stood ahead
	k = newCare(t, fresh, "30 3 * * *", someDay)
	k.at(t, someDay.AddDate(1, 0, 0), 0)
	k.at(t, someDay, 0)
	k.at(t, someDay.Add(24*time.Hour), 1)
}

// On the night in which clocks go forward or back the daily schedule has one run like on any other.
func TestNightlyOverAClockChange(t *testing.T) {
	for _, day := range []time.Time{time.Date(2027, 3, 13, 12, 0, 0, 0, time.UTC), time.Date(2027, 11, 6, 12, 0, 0, 0, time.UTC)} {
		db := openFile(t)
		k := newCare(t, db, "0 0 * * *", day)
		k.Schedule = Daily(2, 30, zone(t, "America/New_York"))
		k.at(t, day, 0)
		for at := day; at.Before(day.Add(36 * time.Hour)); at = at.Add(20 * time.Minute) {
			k.now = at
			k.look(t.Context(), k.Tasks[0])
		}
		if len(k.runs) != 1 {
			t.Errorf("after %s: runs at %v, want one", day, k.runs)
		}
	}
}

// What is busy is tried again, and given up after a while; what the stop interrupts is left to the next start.
func TestTaskThatIsBusy(t *testing.T) {
	db := openFile(t)
	k := newCare(t, db, "30 3 * * *", someDay)
	tries := 0
	k.Tasks[0].Do = func(context.Context) (string, error) { tries++; return "", fmt.Errorf("later: %w", store.ErrBusy) }
	k.at(t, someDay, 0)
	k.at(t, someDay.Add(24*time.Hour), 0)
	runs := taskRuns(t, db)
	if tries != 3 || len(runs) != 1 || runs[0].Outcome == nil || !strings.HasPrefix(*runs[0].Outcome, "failed: later") {
		t.Fatalf("%d tries, %+v", tries, runs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	k.Tasks[0].Do = func(ctx context.Context) (string, error) { cancel(); return "", ctx.Err() }
	k.now = someDay.Add(48 * time.Hour)
	k.look(ctx, k.Tasks[0])
	if n := len(taskRuns(t, db)); n != 1 {
		t.Errorf("%d runs are known, want the first alone", n)
	}
	k.Tasks[0].Do = func(context.Context) (string, error) { panic("loose wire") }
	k.look(t.Context(), k.Tasks[0])
	if runs := taskRuns(t, db); len(runs) != 2 || !strings.Contains(*runs[0].Outcome, "loose wire") {
		t.Errorf("a panic is not written down: %+v", runs)
	}
}

// childCare runs a task at every second of the clock for a while and says how often it did.
func childCare(path string) int {
	db, err := store.Open(context.Background(), path, store.Options{Readers: 1})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	every, err := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse("* * * * * *")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	runs := 0
	ctx, cancel := context.WithTimeout(context.Background(), 2500*time.Millisecond)
	defer cancel()
	Care{DB: db, Schedule: every, Log: slog.New(slog.DiscardHandler), Every: 5 * time.Millisecond, Tasks: []Task{
		{"count", func(context.Context) (string, error) { runs++; return "counted", nil }},
	}}.Run(ctx)
	fmt.Println("runs", runs)
	return 0
}

// Three processes at one tick: one row, one run.
func TestTaskRunsOnceOverProcesses(t *testing.T) {
	db := openFile(t)
	var children []*exec.Cmd
	var outs []*bytes.Buffer
	for range 3 {
		c, out := exec.Command(os.Args[0]), &bytes.Buffer{}
		c.Env = append(os.Environ(), "RELAY_TEST_CARE="+db.Path())
		c.Stdout = out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill() })
		children, outs = append(children, c), append(outs, out)
	}
	ran := 0
	for i, c := range children {
		if err := c.Wait(); err != nil {
			t.Fatalf("%v: %s", err, outs[i])
		}
		var n int
		if _, err := fmt.Sscanf(outs[i].String(), "runs %d", &n); err != nil {
			t.Fatalf("a process said %q", outs[i])
		}
		ran += n
	}
	ticks := map[int64]int{}
	for _, r := range taskRuns(t, db) {
		if r.Task == "count" {
			ticks[r.RunAt]++
		}
	}
	if ran != len(ticks) || ran < 2 {
		t.Errorf("%d runs for %d ticks", ran, len(ticks))
	}
	for tick, n := range ticks {
		if n != 1 || tick%1000 != 0 {
			t.Errorf("tick %d stands %d times", tick, n)
		}
	}
}

// The tasks of a real file: the -wal is empty afterwards, and the planner knows the tables.
func TestFileTasks(t *testing.T) {
	db := openFile(t)
	put(t, db, 300)
	k := newCare(t, db, "30 3 * * *", someDay)
	k.Tasks = FileTasks(db)
	for _, at := range []time.Time{someDay, someDay.Add(24 * time.Hour)} {
		k.now = at
		for _, task := range k.Tasks {
			k.look(t.Context(), task)
		}
	}
	runs := taskRuns(t, db)
	if len(runs) != 2 || *runs[0].Outcome != "done" || !strings.HasSuffix(*runs[1].Outcome, "now 0 KiB") {
		for _, r := range runs {
			t.Errorf("%s: %s", r.Task, *r.Outcome)
		}
	}
	a, err := db.Query(t.Context(), `SELECT count(*) FROM sqlite_stat1 WHERE tbl = 'outbox'`)
	if err != nil || a.Rows[0][0] == int64(0) {
		t.Errorf("no statistics: %v %v", a.Rows, err)
	}
}
