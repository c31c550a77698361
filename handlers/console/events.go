package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"comanda/store"
)

// The streams' measures.
const (
	lookEvery    = 500 * time.Millisecond // at the file, while somebody listens
	aliveEvery   = 15 * time.Second       // a comment, so that a listener that is gone is noticed
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

	mu        sync.Mutex
	listeners map[*listener]struct{}
	watching  bool
}

// listener is one stream. What it has not taken yet is merged into one change.
type listener struct {
	after   string // the id of the last change it knows of, as its browser says; "" for none
	greeted bool
	news    chan store.Changes // of one place
}

func newHub(db *store.DB, closed context.Context) *hub {
	h := &hub{db: db, listeners: map[*listener]struct{}{}}
	h.ended, h.end = context.WithCancel(closed)
	return h
}

// listen adds a stream; false means that there are too many.
func (h *hub) listen(after string) (*listener, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) >= mostStreams || h.ended.Err() != nil {
		return nil, false
	}
	l := &listener{after: after, news: make(chan store.Changes, 1)}
	h.listeners[l] = struct{}{}
	if !h.watching {
		h.watching = true
		go h.watch()
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
		case <-h.ended.Done():
			return
		}
	}
}

// tell passes changes on, and tells new streams whether they have missed any. It reports whether anybody listens.
func (h *hub) tell(place *store.Place, changes store.Changes, seen bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) == 0 {
		h.watching = false
		return false
	}
	for l := range h.listeners {
		switch {
		case !seen || place == nil:
		case !l.greeted:
			l.greeted = true
			if l.after != "" && l.after != strconv.FormatInt(place.Seq, 10) {
				l.hand(store.Changes{Seq: place.Seq, More: true})
			}
		case changes.Any():
			l.hand(changes)
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
// that something changed which they don't name. It ends with the server, not with the server's time-outs.
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
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	text := fmt.Sprintf("retry: %d\n: hello\n\n", reconnectMS)
	for {
		_ = conn.SetWriteDeadline(time.Now().Add(writeWithin))
		if _, err := v.Response().Write([]byte(text)); err != nil || conn.Flush() != nil {
			return nil // the listener is gone
		}
		select {
		case change := <-l.news:
			text = eventText(change)
		case <-alive.C:
			text = ": alive\n\n"
		case <-c.hub.ended.Done():
			return nil
		case <-v.Request().Context().Done():
			return nil
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
