package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"comanda/handlers/door"
	"comanda/store"
)

// The streams' measures.
const (
	lookEvery    = 500 * time.Millisecond // at the file, while somebody listens
	aliveEvery   = 15 * time.Second       // a comment, so that a listener that is gone is noticed
	stillEvery   = 2 * time.Second        // whether the listener's session or token has ended
	writeWithin  = 10 * time.Second
	mostStreams  = 64
	reconnectMS  = 2000
	streamedType = "text/event-stream"
)

// hub looks for changes in the file for all streams of this process, and only while there is one. What another
// process commits it sees as well.
type hub struct {
	db    *store.DB
	ended context.Context
	end   context.CancelFunc
	under sync.WaitGroup // who looks

	mu        sync.Mutex
	listeners map[*listener]struct{}
	watching  bool
	joined    chan struct{} // of one place: somebody waits for a look
}

// listener is one stream. What it has not taken yet is merged into one change.
type listener struct {
	after   string             // the id of the last change it knows of, as its browser says; "" for none
	greeted chan struct{}      // closed by the first look since it came: from then on it is told everything
	news    chan store.Changes // of one place
}

func newHub(db *store.DB, closed context.Context) *hub {
	h := &hub{db: db, listeners: map[*listener]struct{}{}, joined: make(chan struct{}, 1)}
	h.ended, h.end = context.WithCancel(closed)
	return h
}

// close ends the streams and waits until nobody looks at the file any more.
func (h *hub) close() {
	h.mu.Lock() // nobody is being let in
	h.end()
	h.mu.Unlock()
	h.under.Wait()
}

// listen adds a stream; false means that there are too many.
func (h *hub) listen(after string) (*listener, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) >= mostStreams || h.ended.Err() != nil {
		return nil, false
	}
	l := &listener{after: after, greeted: make(chan struct{}), news: make(chan store.Changes, 1)}
	h.listeners[l] = struct{}{}
	if !h.watching {
		h.watching = true
		h.under.Go(h.watch)
	}
	select {
	case h.joined <- struct{}{}:
	default:
	}
	return l, true
}

func (h *hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

// watch looks until nobody listens.
func (h *hub) watch() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var place *store.Place
	for {
		var changes store.Changes
		err := h.db.View(h.ended, func(tx *store.Tx) (err error) {
			var now store.Place
			if place == nil {
				now, err = tx.Place()
			} else {
				now, changes, err = tx.Changed(*place)
			}
			if err == nil {
				place = &now
			}
			return err
		})
		if !h.tell(place, changes, err == nil) {
			return
		}
		select {
		case <-ticker.C:
		case <-h.joined:
		case <-h.ended.Done():
			return
		}
	}
}

// tell passes a look's changes on. A stream that is new since the look before is told whether it has missed any, and is
// greeted: whoever reads the file after that misses nothing. It reports whether anybody listens.
func (h *hub) tell(place *store.Place, changes store.Changes, seen bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) == 0 {
		h.watching = false
		return false
	}
	if !seen {
		return true
	}
	for l := range h.listeners {
		select {
		case <-l.greeted:
			if changes.Any() {
				l.hand(changes)
			}
		default:
			if l.after != "" && l.after != strconv.FormatInt(place.Seq, 10) {
				l.hand(store.Changes{Seq: place.Seq, More: true})
			}
			close(l.greeted)
		}
	}
	return true
}

// hand gives a change to the stream; with one that it has not taken yet it becomes "more".
func (l *listener) hand(c store.Changes) {
	select {
	case <-l.news:
		c = store.Changes{Seq: c.Seq, More: true}
	default:
	}
	l.news <- c
}

// events is GET /events: a stream of what changed, {"seq":…,"orders":[…],"more":…}; orders are ids, and more says
// that something changed which they don't name. It says hello once nothing can be missed any more: what changed before
// that, a page sees that asks for itself again then. It ends with the server, not with the server's time-outs.
func (c *Console) events(v *visit) error {
	l, ok := c.hub.listen(v.Request().Header.Get("Last-Event-ID"))
	if !ok {
		v.Response().Header().Set("Retry-After", "30")
		return refusal{http.StatusServiceUnavailable, "error.streams", ""}
	}
	defer c.hub.leave(l)
	conn := http.NewResponseController(v.Response())
	_ = conn.SetReadDeadline(time.Time{}) // unsupported only outside a real server
	v.Response().Header().Set("Content-Type", streamedType)
	v.Response().WriteHeader(http.StatusOK)
	if v.Request().Method == http.MethodHead {
		return nil
	}
	select {
	case <-l.greeted:
	case <-c.hub.ended.Done():
		return nil
	case <-v.Request().Context().Done():
		return nil
	}
	alive, still := time.NewTicker(aliveEvery), time.NewTicker(stillEvery)
	defer alive.Stop()
	defer still.Stop()
	text := fmt.Sprintf("retry: %d\n: hello\n\n", reconnectMS)
	for {
		_ = conn.SetWriteDeadline(time.Now().Add(writeWithin))
		if _, err := v.Response().Write([]byte(text)); err != nil || conn.Flush() != nil {
			return nil // the listener is gone
		}
		if text, ok = c.next(v, l, alive.C, still.C); !ok {
			return nil
		}
	}
}

// next waits for what the stream tells next; false ends it, with the server, its listener or its listener's session.
func (c *Console) next(v *visit, l *listener, alive, still <-chan time.Time) (text string, ok bool) {
	for {
		select {
		case change := <-l.news:
			return eventText(change), true
		case <-alive:
			return ": alive\n\n", true
		case <-still:
			if !door.StillWelcome(v.Context) {
				return "", false
			}
		case <-c.hub.ended.Done():
			return "", false
		case <-v.Request().Context().Done():
			return "", false
		}
	}
}

func eventText(c store.Changes) string {
	if c.Orders == nil {
		c.Orders = []string{}
	}
	data, err := json.Marshal(struct { // one line, whatever an id holds
		Seq    int64    `json:"seq"`
		Orders []string `json:"orders"`
		More   bool     `json:"more"`
	}{c.Seq, c.Orders, c.More})
	if err != nil {
		data = []byte(`{"orders":[],"more":true}`)
	}
	return fmt.Sprintf("id: %d\nevent: changed\ndata: %s\n\n", c.Seq, data)
}
