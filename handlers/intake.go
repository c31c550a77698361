package handlers

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"comanda/handlers/order"
	"comanda/handlers/signature"
	"comanda/store"
)

// DefaultSenderConcurrency is how many requests of one sender may be under way. What remains of maxInFlight is for
// the others and for the operator.
const DefaultSenderConcurrency = 768

// problemUnsigned is the one answer to every signature that is missing or wrong.
const problemUnsigned = "unsigned"

// Sender is one who may send orders.
type Sender struct {
	Name    string          // its path is /webhooks/NAME/orders and its ids begin with NAME/; "" is /webhooks/orders
	Secrets *signature.Ring // nil asks for no signature
}

// idPrefix stands before the ids of a source, so that two of them may use the same.
func idPrefix(source string) string {
	if source == "" {
		return ""
	}
	return source + "/"
}

// intake is where the requests of one sender come in.
type intake struct {
	sender  Sender
	ids     order.Sender
	most    int64
	under   atomic.Int64
	limiter *rate.Limiter // nil: none
	pause   int           // seconds until another one may come
}

func newIntakes(opt Options) []*intake {
	intakes := make([]*intake, len(opt.Senders))
	for i, sender := range opt.Senders {
		g := &intake{sender: sender, ids: order.Sender{Prefix: idPrefix(sender.Name)}, most: int64(opt.SenderConcurrency)}
		if sender.Name == "" {
			g.ids.Reserved = reserved(opt.Senders)
		}
		if opt.SenderRate > 0 {
			g.limiter = rate.NewLimiter(rate.Limit(opt.SenderRate), int(math.Ceil(opt.SenderRate)))
			g.pause = int(math.Ceil(1 / opt.SenderRate))
		}
		intakes[i] = g
	}
	return intakes
}

// reserved are the prefixes that whoever has none must not use.
func reserved(senders []Sender) (prefixes []string) {
	for _, s := range senders {
		if s.Name != "" {
			prefixes = append(prefixes, idPrefix(s.Name))
		}
	}
	return prefixes
}

func (g *intake) path() string { return "/webhooks/" + idPrefix(g.sender.Name) + "orders" }

// enter refuses what is more than the sender may ask for at once, before anything is read of it.
func (g *intake) enter(now time.Time) (leave func(), err error) {
	leave = func() { g.under.Add(-1) }
	if g.under.Add(1) > g.most {
		leave()
		return nil, notNow("busy", 1, "too many requests of this sender at once; nothing was kept", nil)
	}
	if g.limiter != nil && !g.limiter.AllowN(now, 1) {
		leave()
		return nil, notNow("busy", g.pause, "more requests a second than this sender may make; nothing was kept", nil)
	}
	return leave, nil
}

// arrival is what a request says beside its body.
func (g *intake) arrival(h http.Header, doubt string) Arrival {
	return Arrival{Sender: g.ids, Source: g.sender.Name, WebhookID: signature.ID(h), ClockUntrusted: doubt}
}

// fields are for the log; signature.ID has taken out what does not belong there.
func (a Arrival) fields() (fields []slog.Attr) {
	if a.Source != "" {
		fields = append(fields, slog.String("source", a.Source))
	}
	if a.WebhookID != "" {
		fields = append(fields, slog.String("webhook_id", a.WebhookID))
	}
	if a.ClockUntrusted != "" {
		fields = append(fields, slog.String("clock_untrusted", a.ClockUntrusted))
	}
	return fields
}

// doubt is why the clock is not to be trusted for this event. That nothing keeps it right matters only where the
// age of a signature would have been told by it.
func (s *Server) doubt(ctx context.Context, g *intake) string {
	reason := s.opt.ClockDoubt(ctx)
	if reason == store.ClockUnsynchronised && g.sender.Secrets == nil {
		return ""
	}
	return reason
}

// verify refuses what the sender has not signed, always in the same words. By a clock that is not to be trusted
// nothing is called too old: an event that comes again is known for ever.
func (s *Server) verify(g *intake, h http.Header, body []byte, from Arrival) error {
	if g.sender.Secrets == nil {
		return nil
	}
	window := s.opt.SignatureWindow
	if from.ClockUntrusted != "" {
		window = 0
	}
	if err := g.sender.Secrets.Verify(h, body, s.opt.Now(), window); err != nil {
		return &Problem{Status: http.StatusUnauthorized, Name: problemUnsigned, Detail: "the signature is missing or wrong", cause: err}
	}
	return nil
}
