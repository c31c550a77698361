package console

import (
	"net/http"
	"slices"

	"comanda/handlers/hand"
	"comanda/store"
)

const logRows = 50

// relaySheet is who carries tickets out, and how this process was started.
type relaySheet struct {
	Relays     []store.Relay
	Paused     bool
	Processing []store.Ticket // the newest tickets first, pageRows at the most
	Targets    []hand.Target
	Settings   []Setting
	Log        []store.OperatorAct
	Older      int64 // the number below which the log's next page begins; 0 on the last
	Now        int64
	File       string
}

func (c *Console) relay(v *visit) error {
	s := relaySheet{Settings: c.opt.Settings, File: c.opt.DB.Path()}
	first, err := before(v)
	if err != nil {
		return err
	}
	err = v.view(func(tx *store.Tx) (err error) {
		s.Now = tx.Now()
		if s.Relays, err = tx.Relays(); err != nil {
			return err
		}
		if s.Paused, err = tx.Paused(); err != nil {
			return err
		}
		if s.Processing, err = tx.Tickets(store.TicketFilter{Status: "processing", Limit: pageRows}); err != nil {
			return err
		}
		if s.Targets, err = hand.Targets(tx, c.opt.TargetNames); err != nil {
			return err
		}
		s.Log, err = tx.OperatorLog(first, logRows+1)
		return err
	})
	if err != nil {
		return err
	}
	if len(s.Log) > logRows {
		s.Log = s.Log[:logRows]
		s.Older = s.Log[logRows-1].ID
	}
	return v.show(http.StatusOK, "relay", sheet{Live: first == 0, Every: 15, Body: &s})
}

// setRelay is POST /relay with do=pause or resume.
func (c *Console) setRelay(v *visit) error {
	paused, err := v.pauses()
	if err != nil {
		return err
	}
	err = c.opt.DB.Update(v.Request().Context(), func(tx *store.Tx) error { return tx.Pause(paused, v.who()) })
	if err != nil {
		return err
	}
	return v.back("/relay")
}

// setTarget is POST /targets/{name} with do=pause or resume, and a reason for a pause.
func (c *Console) setTarget(v *visit) error {
	name := v.id()
	if !slices.Contains(c.opt.TargetNames, name) {
		return store.ErrNotFound
	}
	paused, err := v.pauses()
	if err != nil {
		return err
	}
	reason := v.Request().PostFormValue("reason")
	if err := hand.CheckReason(reason); err != nil {
		return actRefusal(err)
	}
	err = c.opt.DB.Update(v.Request().Context(), func(tx *store.Tx) error {
		if paused {
			return tx.PauseTarget(name, v.who(), reason)
		}
		return tx.ResumeTarget(name, v.who())
	})
	if err != nil {
		return err
	}
	return v.back("/relay")
}

// pauses reads whether a form pauses or resumes.
func (v *visit) pauses() (bool, error) {
	f, err := v.form()
	if err != nil {
		return false, err
	}
	switch f.Get("do") {
	case "pause":
		return true, nil
	case "resume":
		return false, nil
	}
	return false, refusal{http.StatusBadRequest, "error.form", ""}
}

// sendSample is POST /sample, in a throw-away appliance alone: an order comes in by its own door.
func (c *Console) sendSample(v *visit) error {
	if c.opt.Sample == nil {
		return store.ErrNotFound
	}
	id, err := c.opt.Sample(v.Request().Context())
	if err != nil {
		return refusal{http.StatusBadGateway, "error.sample", err.Error()}
	}
	return v.back(orderPath(id))
}
