package relay

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"comanda/store"
)

// A machine sleeps for an hour in the middle of a send. The send is over at the first look after that and counts as
// unknown; the ticket is sent again under its key.
func TestSleepInTheMiddleOfASend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		boot := func() (string, int64) { return "this boot", time.Now().UnixMilli() + slept.Load() }
		db, g := openRemoteBy(t, boot, "test"), newGateway()
		put(t, db, 1)
		var why error
		g.set(func(ctx context.Context, _ store.Letter) store.Reply {
			<-ctx.Done()
			why = context.Cause(ctx)
			return timedOut
		})
		r := remoteRunner(t, db, remoteOf(g), func(o *Options) { o.Lease = 24 * time.Hour })
		var under sync.WaitGroup
		under.Go(func() { _, _ = r.RunOnce(t.Context()) })
		time.Sleep(5 * time.Second)
		slept.Store(time.Hour.Milliseconds())
		awake := time.Now()
		under.Wait()
		if took := time.Since(awake); took > time.Second || !errors.Is(why, context.DeadlineExceeded) {
			t.Errorf("the send went on for %v after the sleep and ended with %v", took, why)
		}
		if got := attempts(t, db, 1); !slices.Equal(got, []string{"send unknown"}) {
			t.Errorf("%v", got)
		}
		g.set(nil)
		time.Sleep(time.Minute) // the backoff
		if got := runOnce(t, r); got.Done != 1 || g.sent[0] != g.sent[1] {
			t.Errorf("the next pass: %+v, sent %v", got, g.sent)
		}
	})
}

// What ends by the machine's sleep reads like any other answer that did not come in time.
func TestSleptRequestSaysNoAnswerInTime(t *testing.T) {
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer s.Close()
	defer close(hang)
	var up atomic.Int64
	ctx, cancel := within(t.Context(), time.Hour, func() (string, int64) { return "this boot", up.Add(time.Hour.Milliseconds()) })
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = http.DefaultClient.Do(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the request ended with %v", err)
	}
}
