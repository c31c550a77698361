package console

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"comanda/handlers/hand"
	"comanda/store"
)

// A form that is too large, or names too many tickets, is refused before anything is done.
func TestFormsAreBounded(t *testing.T) {
	s := newShop(t)
	id := s.decide("ORD-1")
	large := url.Values{"do": {"retry"}, "id": {fmt.Sprint(id)}, "reason": {strings.Repeat("a", 300<<10)}}
	s.do("POST", "/rail/act", large).wants(400)
	many := url.Values{"do": {"retry"}}
	for i := range hand.MostAtOnce + 1 {
		many.Add("id", fmt.Sprint(i+1))
	}
	s.do("POST", "/rail/confirm", many).wants(422, "at most 1,000")
	s.do("POST", "/targets/refund", url.Values{"do": {"pause"}, "reason": {strings.Repeat("a", 1001)}}).wants(422)
	s.do("POST", "/targets/refund", url.Values{"do": {"pause"}, "reason": {"\xff"}}).wants(422)
	s.do("POST", "/targets/nobody", url.Values{"do": {"pause"}}).wants(404)
	s.do("POST", "/sample", url.Values{}).wants(404) // in a throw-away appliance alone
	s.get("/relay").wants(200, "Nothing was done by hand yet.")
}

// What can't be seen, or turns the direction of reading, is made visible, on every page that shows it.
func TestWhatCantBeSeenIsShown(t *testing.T) {
	const name = "ORD-\u202e1\u2066\u2028\u200b"
	s := newShop(t)
	id := s.decide(name)
	s.bury(id, "said \x1b[2J and \u2066more")
	unseen := regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}\p{Cf}\p{Zl}\p{Zp}]`)
	inputs := regexp.MustCompile(` (value|data-order)="[^"]*"`) // what is sent back as it is, in a field of its own or to no eye
	order := url.PathEscape(name)
	for _, path := range []string{"/", "/rail", "/rail?order=" + order, "/orders", "/orders?q=" + order, "/orders/" + order, "/orders/" + order + "/receipt", "/attention",
		fmt.Sprintf("/tickets/%d", id), "/relay", "/truth", "/graph"} {
		p := s.get(path).wants(200)
		if found := unseen.FindAllString(inputs.ReplaceAllString(p.body, ""), -1); found != nil {
			t.Errorf("%s shows %+q", path, found)
		}
	}
	s.get(fmt.Sprintf("/tickets/%d", id)).wants(200, "ORD-\uFFFD1", "said \u241b[2J and \uFFFDmore")
}

// A page that answers a form leads, for another language, to one that can be asked for.
func TestLanguageFromAForm(t *testing.T) {
	s := newShop(t)
	s.do("POST", "/rail/confirm", url.Values{"do": {"retry"}, "id": {fmt.Sprint(s.decide("ORD-1"))}}).wants(200, "/language?code=es&from=%2Frail\"")
}

// That nobody carries out what waits is the first thing to say, and what a first order does to a real target too.
func TestCounterWarns(t *testing.T) {
	s := newShop(t)
	s.update(func(tx *store.Tx) error {
		_, err := tx.MarkTargets([]store.Mark{{Name: "refund", URL: "https://pay.example/x"}}, "test")
		return err
	})
	s.get("/").wants(200, "Ready for the first order", "this order moves real money or goods")
	v := &visit{console: s.console, lang: s.console.shown()["en"]}
	long := int64(2 * time.Minute / time.Millisecond)
	recent := int64(1000)
	for name, c := range map[string]struct {
		sheet counterSheet
		says  bool
	}{
		"no relay ever":         {counterSheet{Waiting: 2, Oldest: long}, true},
		"none for long":         {counterSheet{Waiting: 2, Oldest: long, LastPass: &long}, true},
		"one a moment ago":      {counterSheet{Waiting: 2, Oldest: long, LastPass: &recent}, false},
		"only just put in":      {counterSheet{Waiting: 2, Oldest: recent}, false},
		"nothing waits":         {counterSheet{Oldest: long, LastPass: &long}, false},
		"paused, which is said": {counterSheet{Waiting: 2, Oldest: long, Paused: true}, false},
	} {
		if said := strings.HasPrefix(v.sentences(&c.sheet, nil, nil)[0].Text, "Nobody carries out the 2 tickets"); said != c.says {
			t.Errorf("%s: %t", name, said)
		}
	}
}

// Needs attention leads to an act over exactly the tickets of a cause, and no other's.
func TestCauseNamesItsTickets(t *testing.T) {
	s := newShop(t)
	for _, o := range []string{"ORD-1", "ORD-2", "ORD-3"} {
		why := "rejected: card closed"
		if id := s.decide(o); o == "ORD-2" {
			s.bury(id, "rejected: no such order")
		} else {
			s.bury(id, why)
		}
	}
	s.get("/attention").wants(200, `name="id" value="3,1"`, `name="id" value="2"`, "Retry these 2 tickets…")
	s.do("POST", "/rail/confirm", url.Values{"do": {"retry"}, "id": {"3,1"}}).wants(200, `value="1 dead.`, `value="3 dead.`, "Retry 2 tickets")
	s.do("POST", "/rail/confirm", url.Values{"do": {"retry"}, "id": {"3,x"}}).wants(400)
	s.do("POST", "/rail/confirm", url.Values{"do": {"retry"}, "id": {","}}).wants(422)
}

// The box that lets a doubtful ticket go out again is there whenever one of the chosen ones needs it.
func TestDoubtAsksForAWordMore(t *testing.T) {
	s := newShop(t)
	sure, doubtful := s.decide("ORD-1"), int64(0)
	s.bury(sure, "rejected: 422")
	doubtful = s.decide("ORD-2")
	s.claim(doubtful, func(tx *store.Tx, token string) (bool, error) { return tx.Park(token, doubtful, "nobody knows") })
	ask := func(do string, ids ...int64) page {
		form := url.Values{"do": {do}}
		for _, id := range ids {
			form.Add("id", fmt.Sprint(id))
		}
		return s.do("POST", "/rail/confirm", form)
	}
	if p := ask("retry", sure).wants(200); strings.Contains(p.body, `name="confirm"`) {
		t.Error("a ticket that was rejected asks for more than a reason")
	}
	ask("retry", sure, doubtful).wants(200, `name="confirm"`, "I have looked: send again")
}
