package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"comanda/handlers/hand"
	"comanda/store"
)

// handFlags are shared by the acts on tickets.
type handFlags struct {
	IDs    []int64 `arg:"" name:"id" help:"The tickets' numbers."`
	Reason string  `env:"-" placeholder:"TEXT" help:"Why; it is kept in the operator log."`
	Yes    bool    `env:"-" help:"Do it; several tickets are only previewed without."`
	fileFlag
	jsonFlag
}

type ticketRetryCmd struct {
	handFlags
	Confirm string `env:"-" placeholder:"'send again'" help:"For tickets of which nobody knows whether they happened."`
}

type ticketDiscardCmd struct{ handFlags }

type ticketResolveCmd struct {
	handFlags
	Happened    bool   `env:"-" help:"It happened: the ledger is written and the ticket is done." xor:"what" required:""`
	NotHappened bool   `env:"-" help:"It did not happen: the ticket is dead, and can be retried." xor:"what" required:""`
	Reference   string `env:"-" placeholder:"TEXT" help:"The target's own id, or whom was asked."`
}

func (c *ticketRetryCmd) Run(s *session) error {
	if c.Confirm != "" && c.Confirm != "send again" {
		return Usage(errors.New("--confirm takes the words 'send again' and no others"))
	}
	return s.act(c.handFlags, store.HandAct{Do: store.ActRetry, SendAgain: c.Confirm != "", Reason: c.Reason})
}

func (c *ticketDiscardCmd) Run(s *session) error {
	return s.act(c.handFlags, store.HandAct{Do: store.ActDiscard, Reason: c.Reason})
}

func (c *ticketResolveCmd) Run(s *session) error {
	return s.act(c.handFlags, store.HandAct{Do: store.ActResolve, Happened: c.Happened, Reference: c.Reference, Reason: c.Reason})
}

// act previews or carries out an act, and says ticket by ticket what came of it.
func (s *session) act(f handFlags, what store.HandAct) error {
	if what.Do != store.ActRetry && strings.TrimSpace(f.Reason) == "" {
		return Usage(errors.New("say why with --reason TEXT: it is kept in the operator log"))
	}
	what.Who = who()
	a := hand.Act{HandAct: what, IDs: f.IDs, LedgerTypes: s.program.LedgerTypes}
	do := a.Carry
	preview := len(f.IDs) > 1 && !f.Yes
	if preview {
		do = a.Preview
	}
	var r hand.Report
	err := s.withFile(f.DB, func(db *store.DB) (err error) {
		r, err = do(s.ctx, db)
		return err
	})
	var wrong hand.Problem
	switch {
	case errors.As(err, &wrong):
		return Usage(wrong)
	case err != nil:
		return err
	case f.JSON:
		if err := s.json(r); err != nil {
			return err
		}
	default:
		if err := s.report(r); err != nil {
			return err
		}
	}
	switch {
	case preview:
		return errors.New("nothing was done: add --yes to do this")
	case len(r.Refused) > 0:
		return errors.New(r.Refused[0].Why)
	}
	return nil
}

func (s *session) report(r hand.Report) error {
	s.printf("%s\n", s.show(r.Text))
	return s.table(func(row func(...string)) {
		for _, t := range r.Tickets {
			row("ticket "+strconv.FormatInt(t.ID, 10), t.State, t.Key)
		}
		for _, t := range r.Refused {
			row("left alone", t.State, t.Why)
		}
	})
}

type targetsCmd struct {
	List   targetListCmd   `cmd:"" help:"List the targets and how they fare."`
	Pause  targetPauseCmd  `cmd:"" help:"Send nothing to a target until it is resumed."`
	Resume targetResumeCmd `cmd:"" help:"Send to a target again."`
	Local  targetLocalCmd  `cmd:"" help:"Make a target local again: its effects are simulated in this file from then on."`
}

type targetListCmd struct {
	fileFlag
	jsonFlag
}

type targetFlag struct {
	Name string `arg:"" help:"The target: refund, inventory or release."`
}

type targetPauseCmd struct {
	targetFlag
	Reason string `env:"-" placeholder:"TEXT" help:"Why; it is kept in the operator log."`
	fileFlag
}

type targetResumeCmd struct {
	targetFlag
	fileFlag
}

type targetLocalCmd struct {
	targetFlag
	IKnow bool `name:"i-know" env:"-" help:"Yes: what this target was for is only simulated from now on."`
	fileFlag
}

func (c *targetListCmd) Run(s *session) error {
	var rows []hand.Target
	err := s.view(c.DB, "", func(tx *store.Tx) (err error) {
		rows, err = hand.Targets(tx, s.program.TargetNames)
		return err
	})
	if err != nil || c.JSON {
		return errors.Join(err, s.jsonIf(err == nil, rows))
	}
	return s.table(func(line func(...string)) {
		line("target", "mode", "state", "address", "why")
		for _, t := range rows {
			line(t.Name, strings.ToUpper(t.Mode), t.State, textOrDash(t.Address), t.PausedWhy)
		}
	})
}

func (s *session) jsonIf(yes bool, v any) error {
	if !yes {
		return nil
	}
	return s.json(v)
}

func textOrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (c *targetPauseCmd) Run(s *session) error {
	return s.target(c.targetFlag, c.DB, "paused", func(tx *store.Tx) error { return tx.PauseTarget(c.Name, who(), c.Reason) })
}

func (c *targetResumeCmd) Run(s *session) error {
	return s.target(c.targetFlag, c.DB, "resumed", func(tx *store.Tx) error { return tx.ResumeTarget(c.Name, who()) })
}

func (c *targetLocalCmd) Run(s *session) error {
	if !c.IKnow {
		return Usage(fmt.Errorf("targets local %s makes %s effects a simulation in this file, and nobody outside hears of them any more: add --i-know if that is what you want", c.Name, c.Name))
	}
	return s.target(c.targetFlag, c.DB, "local", func(tx *store.Tx) error {
		changed, err := tx.TargetLocal(c.Name, who())
		if err == nil && !changed {
			err = fmt.Errorf("%s is local already", c.Name)
		}
		return err
	})
}

func (s *session) target(f targetFlag, path, becomes string, do func(*store.Tx) error) error {
	if !slices.Contains(s.program.TargetNames, f.Name) {
		return Usage(fmt.Errorf("there is no target %q: the targets are %s", f.Name, strings.Join(s.program.TargetNames, ", ")))
	}
	err := s.update(path, do)
	if err == nil {
		s.printf("%s is %s\n", f.Name, becomes)
	}
	return err
}
