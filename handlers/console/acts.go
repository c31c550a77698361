package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"comanda/handlers/hand"
	"comanda/store"
)

// sendAgain is what the box says that must be ticked to have something sent of which nobody knows whether it
// happened.
const sendAgain = "send again"

var doable = []string{store.ActRetry, store.ActDiscard, store.ActResolve}

// actSheet is an act over tickets, before it is done or after.
type actSheet struct {
	Do        string
	Report    hand.Report
	IDs       []int64
	Seen      map[int64]string // how each ticket stood when this was shown
	Targets   map[string]hand.Target
	Reason    string
	Reference string
	Happened  string // "yes", "no" or "" for not said
	SendAgain bool
	Unsure    bool   // some may have happened: to send them takes a word more
	Wrong     string // what is missing; "" for nothing
	Back      string // where the visitor came from
}

// confirm is POST /rail/confirm: what would follow, over exactly the tickets that were chosen.
func (c *Console) confirm(v *visit) error {
	s, err := v.readAct()
	if err != nil {
		return err
	}
	return v.askToConfirm(http.StatusOK, s)
}

// askToConfirm shows the form that does the act. What would follow is looked up as if everything that the form asks
// for had been given. The form names how each ticket stands now: what stands otherwise when it is sent is left alone,
// so that one confirmation never goes for two sends, nor an old answer for a new send.
func (v *visit) askToConfirm(status int, s *actSheet) error {
	ctx, db := v.Request().Context(), v.console.opt.DB
	trial := s.act(v)
	trial.Reason, trial.Reference, trial.Seen, trial.SendAgain, trial.Happened = "-", "", nil, true, true
	var err error
	if s.Report, err = trial.Preview(ctx, db); err != nil {
		return actRefusal(err)
	}
	if s.Do == store.ActRetry {
		trial.SendAgain = false
		sure, err := trial.Preview(ctx, db)
		if err != nil {
			return actRefusal(err)
		}
		s.Unsure = len(sure.Tickets) < len(s.Report.Tickets)
		if err := s.readTargets(v); err != nil {
			return err
		}
	}
	return v.show(status, "confirm", sheet{Title: v.lang.say("confirm.title." + s.Do), Body: s})
}

// readTargets looks where what is retried would go.
func (s *actSheet) readTargets(v *visit) error {
	return v.view(func(tx *store.Tx) error {
		targets, err := hand.Targets(tx, v.console.opt.TargetNames)
		s.Targets = make(map[string]hand.Target, len(targets))
		for _, t := range targets {
			s.Targets[t.Name] = t
		}
		return err
	})
}

// act is POST /rail/act: it does what was confirmed, and shows what became of it.
func (c *Console) act(v *visit) error {
	s, err := v.readAct()
	if err != nil {
		return err
	}
	if strings.TrimSpace(s.Reason) == "" {
		s.Wrong = "confirm.needs_reason"
	} else if s.Do == store.ActResolve && s.Happened == "" {
		s.Wrong = "confirm.needs_happened"
	}
	if s.Wrong != "" {
		return v.askToConfirm(http.StatusUnprocessableEntity, s)
	}
	switch s.Report, err = s.act(v).Carry(v.Request().Context(), c.opt.DB); {
	case errors.Is(err, store.ErrBusy):
		s.Wrong = "error.busy"
		return v.askToConfirm(http.StatusServiceUnavailable, s)
	case err != nil:
		return actRefusal(err)
	}
	return v.show(http.StatusOK, "result", sheet{Title: v.lang.say("result.title." + s.Do), Body: s})
}

func (s *actSheet) act(v *visit) hand.Act {
	return hand.Act{IDs: s.IDs, Seen: s.Seen, LedgerTypes: v.console.opt.LedgerTypes, HandAct: store.HandAct{
		Do: s.Do, Reason: s.Reason, Reference: s.Reference, SendAgain: s.SendAgain, Happened: s.Happened == "yes", Who: v.who(),
	}}
}

func actRefusal(err error) error {
	var p hand.Problem
	if errors.As(err, &p) {
		return refusal{http.StatusUnprocessableEntity, "error.act", p.Error()}
	}
	return err
}

func (v *visit) readAct() (*actSheet, error) {
	f, err := v.form()
	if err != nil {
		return nil, err
	}
	s := &actSheet{Do: f.Get("do"), Reason: f.Get("reason"), Reference: f.Get("reference"), Happened: f.Get("happened"),
		SendAgain: f.Get("confirm") == sendAgain, Back: ownPath(f.Get("back"))}
	if s.Back == "/" {
		s.Back = "/rail"
	}
	if !slices.Contains(doable, s.Do) || s.Happened != "" && s.Happened != "yes" && s.Happened != "no" {
		return nil, refusal{http.StatusBadRequest, "error.form", ""}
	}
	if s.IDs, err = readIDs(f); err != nil {
		return nil, err
	}
	s.Seen = readSeen(f, s.IDs)
	return s, nil
}

// readSeen reads how each ticket was shown: "5 dead.3.120". Of one that was not shown nothing is done.
func readSeen(f url.Values, ids []int64) map[int64]string {
	seen := make(map[int64]string, len(ids))
	for _, id := range ids {
		seen[id] = "not shown"
	}
	for _, given := range f["seen"] {
		id, mark, _ := strings.Cut(given, " ")
		if n, err := strconv.ParseInt(id, 10, 64); err == nil && mark != "" {
			seen[n] = mark
		}
	}
	return seen
}

func readIDs(f url.Values) (ids []int64, err error) {
	for _, given := range strings.Split(strings.Join(f["id"], ","), ",") {
		if given == "" {
			continue
		}
		id, err := strconv.ParseInt(given, 10, 64)
		if err != nil {
			return nil, refusal{http.StatusBadRequest, "error.form", ""}
		}
		ids = append(ids, id)
	}
	switch {
	case len(ids) == 0:
		return nil, refusal{http.StatusUnprocessableEntity, "error.none_chosen", ""}
	case len(ids) > hand.MostAtOnce:
		return nil, refusal{http.StatusUnprocessableEntity, "error.too_many", ""}
	}
	return ids, nil
}
