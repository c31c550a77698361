package store

import (
	"context"
	"database/sql"
	"runtime"
	"time"

	"github.com/fsnotify/fsnotify"
)

// The pauses between two looks for what others have committed, where the system tells of every write to the -wal. A
// commit can be read some time after its last write: after the sync, and after a note in shared memory that nobody
// tells of. So the first look comes this long after a write, and each further one after twice the pause before.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = time.Second // FUSE, for one, tells only of what was written on this side of it
)

// listening watches for what other processes commit to the file.
type listening struct {
	look    chan struct{} // asks the writer for a look
	version int64         // the writer's
	changed chan struct{}
}

// A number that is another one after another connection has committed
// (https://sqlite.org/pragma.html#pragma_data_version): a look at shared memory that locks nothing for writing. The
// writer's connection is the one to ask, since it does not see what this process writes as a change.
const sqlOthers = `PRAGMA data_version`

// Listen has the file looked at from now on, until it is closed or ctx ends, and signals when another process, or
// another client, has committed something: soon after it was written where the system tells of that (inotify, on
// Linux), and after every at the latest where it doesn't. Like Wake it is a hint, for one listener. It returns
// ErrClosed or ctx's error.
func (db *DB) Listen(ctx context.Context, every time.Duration) (changed <-chan struct{}, err error) {
	err = db.run(ctx, &errand{done: make(chan error, 1), fn: func(context.Context, *sql.Conn) error {
		db.lookAtOthers()
		return nil
	}})
	if err != nil {
		return nil, err
	}
	w := db.watchWAL()
	if w != nil {
		every = max(every, lastLook)
	}
	go db.keepLooking(ctx, w, every)
	return db.others.changed, nil
}

// watchWAL has the system tell of what is written to the -wal, or is nil where it can't. Only inotify is asked: others
// open the file to watch it (kqueue), or tell when it is closed (Windows).
func (db *DB) watchWAL() *fsnotify.Watcher {
	if runtime.GOOS != "linux" {
		return nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil // this user has as many as it may have
	}
	if err := w.Add(db.path + "-wal"); err != nil {
		_ = w.Close()
		return nil
	}
	return w
}

// keepLooking asks for a look after every pause. A write makes the next pause a short one, whoever wrote: the system
// does not say. Until that look no further word is taken, and the system keeps one for all that is written meanwhile.
func (db *DB) keepLooking(ctx context.Context, w *fsnotify.Watcher, longest time.Duration) {
	var words <-chan fsnotify.Event
	var lost <-chan error // there were more words than the system keeps
	if w != nil {
		defer func() { _ = w.Close() }()
		words, lost = w.Events, w.Errors
	}
	first, heard := min(firstLook, longest), words
	for pause := longest; ; {
		select {
		case <-ctx.Done():
			return
		case <-db.closing:
			return
		case <-heard:
			pause, heard = first, nil
			continue
		case <-lost:
			pause = first
			continue
		case <-time.After(pause):
		}
		select {
		case <-ctx.Done():
			return
		case <-db.closing:
			return
		case db.others.look <- struct{}{}:
		}
		pause, heard = min(2*pause, longest), words
	}
}

// lookAtOthers signals when the version has changed. What can't be read now is looked at again. Only the writer's
// goroutine calls it.
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
