package store

import (
	"context"
	"database/sql"
	"time"
)

// listening watches for what other processes commit to the file. Only the writer's goroutine uses it: its connection
// does not see what this process writes as a change, and handing the question over would cost more than asking.
type listening struct {
	tick    <-chan time.Time // nil while nobody listens
	version int64
	changed chan struct{}
}

// A number that is another one after another connection has committed
// (https://sqlite.org/pragma.html#pragma_data_version): a look at shared memory that locks nothing for writing.
const sqlOthers = `PRAGMA data_version`

// Listen has the file looked at that often from now on, until it is closed, and signals when another process, or
// another client, has committed something. Like Wake it is a hint, for one listener. It returns ErrClosed or ctx's
// error.
func (db *DB) Listen(ctx context.Context, every time.Duration) (changed <-chan struct{}, err error) {
	err = db.run(ctx, &errand{done: make(chan error, 1), fn: func(context.Context, *sql.Conn) error {
		db.others.tick = time.Tick(every)
		db.lookAtOthers()
		return nil
	}})
	return db.others.changed, err
}

// lookAtOthers signals when the version has changed. What can't be read now is looked at again.
func (db *DB) lookAtOthers() {
	ctx := context.Background() // one that can end would have a goroutine of its own watch it
	s, err := db.writer.stmt(ctx, sqlOthers)
	if err != nil {
		return
	}
	before := db.others.version
	if err := s.QueryRowContext(ctx).Scan(&db.others.version); err != nil || db.others.version == before {
		return
	}
	select {
	case db.others.changed <- struct{}{}:
	default: // it is told already
	}
}
