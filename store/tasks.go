package store

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// TaskRun is one run of a task of the file's own care. Times are Unix milliseconds.
type TaskRun struct {
	Task       string  `json:"task"`
	RunAt      int64   `json:"run_at"` // the tick of the schedule that it is for
	StartedAt  int64   `json:"started_at"`
	FinishedAt *int64  `json:"finished_at"`
	Outcome    *string `json:"outcome"`
}

// The newest tick up to now; what a clock that stood ahead once wrote is passed by.
const sqlLastRun = `SELECT run_at FROM task_runs WHERE task = $1 AND run_at <= $2 ORDER BY run_at DESC LIMIT 1`

const sqlBeginTask = `INSERT INTO task_runs (task, run_at, started_at) VALUES ($1, $2, $3) ON CONFLICT (task, run_at) DO NOTHING`

const sqlFirstSeen = `INSERT INTO task_runs (task, run_at, started_at, finished_at, outcome) VALUES ($1, $2, $2, $2, 'first seen') ON CONFLICT (task, run_at) DO NOTHING`

// LastRun is the newest tick up to now, in Unix milliseconds, for which a task was run or first seen.
func (tx *Tx) LastRun(task string, now int64) (at int64, found bool, err error) {
	found, err = tx.find(sqlLastRun, []any{task, now}, &at)
	return at, found, err
}

// BeginTask reports whether the caller is to run a task for a tick, both times in Unix milliseconds: nobody has
// run it for that tick or a later one up to now. A task that the file does not know is only noted, as seen now.
// Of several processes one is told to run it.
func (tx *Tx) BeginTask(task string, tick, now int64) (bool, error) {
	last, found, err := tx.LastRun(task, now)
	if err != nil {
		return false, err
	}
	if !found {
		_, err := tx.exec(sqlFirstSeen, task, now)
		return false, err
	}
	if tick <= last {
		return false, nil
	}
	n, err := tx.exec(sqlBeginTask, task, tick, now)
	return n > 0, err
}

// tasksKept is how many runs are kept, of all tasks together.
const tasksKept = 2000

const (
	sqlEndTask  = `UPDATE task_runs SET finished_at = $3, outcome = $4 WHERE task = $1 AND run_at = $2 AND finished_at IS NULL`
	sqlTrimRuns = `DELETE FROM task_runs WHERE id <= (SELECT max(id) FROM task_runs) - $1`
)

// EndTask writes down what came of a run, and forgets the oldest runs beyond 2,000.
func (tx *Tx) EndTask(task string, tick, now int64, outcome string) error {
	if _, err := tx.exec(sqlEndTask, task, tick, now, outcome); err != nil {
		return err
	}
	_, err := tx.exec(sqlTrimRuns, tasksKept)
	return err
}

const sqlForgetRun = `DELETE FROM task_runs WHERE task = $1 AND run_at = $2 AND finished_at IS NULL`

// ForgetRun takes back a run that did not come to its end because the process stops: the next start runs it.
func (tx *Tx) ForgetRun(task string, tick int64) error {
	_, err := tx.exec(sqlForgetRun, task, tick)
	return err
}

const sqlTaskRuns = `SELECT task, run_at, started_at, finished_at, outcome FROM task_runs WHERE outcome IS NOT 'first seen' ORDER BY id DESC LIMIT $1`

// TaskRuns lists the newest runs, newest first.
func (tx *Tx) TaskRuns(limit int) ([]TaskRun, error) {
	return collect(tx, sqlTaskRuns, []any{limit}, func(scan func(...any) error, r *TaskRun) error {
		return scan(&r.Task, &r.RunAt, &r.StartedAt, &r.FinishedAt, &r.Outcome)
	})
}

// TaskFailed begins the outcome of a run that failed.
const TaskFailed = "failed: "

// lookAtTasks tells what came of the newest run of each task.
func (db *DB) lookAtTasks(ctx context.Context) []Check {
	c := Check{Name: "nightly care", SQL: sqlTaskRuns, Level: LevelOK, Answer: "no run yet"}
	var runs []TaskRun
	err := db.View(ctx, func(tx *Tx) (err error) {
		runs, err = tx.TaskRuns(100)
		return err
	})
	if err != nil {
		c.Level, c.Answer = LevelWrong, "can't be read: "+err.Error()
	}
	seen, all := map[string]bool{}, []string{}
	for _, r := range runs {
		if seen[r.Task] || r.Outcome == nil {
			continue
		}
		seen[r.Task] = true
		all = append(all, fmt.Sprintf("%s %s: %s", r.Task, time.UnixMilli(r.RunAt).UTC().Format(time.RFC3339), *r.Outcome))
		if strings.HasPrefix(*r.Outcome, TaskFailed) {
			c.Level, c.Detail = LevelWarning, "the next night tries again; the log of that time says more"
		}
	}
	if len(all) > 0 {
		c.Answer = strings.Join(all, "; ")
	}
	return []Check{c}
}
