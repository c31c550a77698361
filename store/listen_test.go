package store

import (
	"runtime"
	"testing"
	"time"

	"comanda/store/crashdisk"
)

// What others commit is signalled, and what this process does is not: by the pauses alone, where the system tells of
// no writes.
func TestListen(t *testing.T) {
	path := newPath(t)
	mine, other := open(t, path, Options{}), open(t, path, Options{})
	changed, err := mine.Listen(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	go mine.keepLooking(t.Context(), nil, time.Millisecond)
	<-changed // the first look knows of nothing before it
	update(t, mine, (*Tx).Touch)
	mine.Still(mine.lookAtOthers)
	select {
	case <-changed:
		t.Error("what this process commits is signalled")
	default:
	}
	update(t, other, (*Tx).Touch)
	awaitChange(t, changed)
}

// Where the system tells of writes, no pause is waited for, which is an hour here. A disk that takes its time over the
// sync, after the last write that the system can tell of, is waited for.
func TestListenIsTold(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("inotify is Linux's")
	}
	d, err := crashdisk.New()
	if err != nil {
		t.Fatal(err)
	}
	path := newPath(t)
	mine, other := open(t, path, Options{}), open(t, path, Options{VFS: d.VFS()})
	changed, err := mine.Listen(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	<-changed
	for _, sync := range []time.Duration{0, 15 * firstLook} {
		d.Break(func(op crashdisk.Op) crashdisk.Verdict {
			if op.Kind == crashdisk.Sync {
				time.Sleep(sync)
			}
			return crashdisk.Verdict{}
		})
		update(t, other, (*Tx).Touch)
		awaitChange(t, changed)
	}
}

func awaitChange(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Fatal("what another commits is not signalled")
	}
}
