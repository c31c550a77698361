package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	claimKills message = "kills.claim"
	claimPower message = "power.claim"
	claimDisk  message = "disk.claim"
)

// faultTime is how long each of these three goes on.
const faultTime = 10 * time.Second

// faultPrefix begins every order of theirs.
const faultPrefix = "LAB-"

func proveKills(ctx context.Context, p *proof) error {
	k, err := killAll(ctx, p, faultPrefix, faultTime)
	if err != nil {
		return err
	}
	p.say("kills.killed", "Where", k.where(p.words), "Orders", thousands(len(k.acknowledged)), "Again", thousands(k.resent))
	p.answerFor(&k.toll)
	p.invariants(ctx)
	return nil
}

func provePower(ctx context.Context, p *proof) error {
	lab, err := p.laboratory("full")
	if err != nil {
		return err
	}
	t, err := lab.cutPower(ctx, faultTime)
	if err != nil {
		return err
	}
	p.say("power.how")
	p.answerFor(t)
	p.say("power.normal")
	if lab, err = p.laboratory("normal"); err != nil {
		return err
	}
	lab.synchronous = "NORMAL"
	if t, err = lab.cutPower(ctx, faultTime/5); err != nil {
		return err
	}
	p.expect(p.text("power.lost"), fmt.Sprint(t.lost > 0), "true")
	p.expect(p.text("power.damaged"), fmt.Sprint(t.corrupt+t.broken > 0), "false")
	return nil
}

func proveDisk(ctx context.Context, p *proof) error {
	lab, err := p.laboratory("disk")
	if err != nil {
		return err
	}
	once, forGood, err := lab.breakDisk(ctx, faultTime)
	if err != nil {
		return err
	}
	p.say("disk.how")
	p.answerFor(once)
	p.answerFor(forGood)
	return nil
}

// laboratory is one in a directory of its own beside the proof's file.
func (p *proof) laboratory(name string) (laboratory, error) {
	dir := filepath.Join(p.dir, name)
	return laboratory{appliance: p.appliance, dir: dir, prefix: faultPrefix}, os.Mkdir(dir, 0o700)
}

// answerFor checks that every promise was kept, and that there was something to keep one against.
func (p *proof) answerFor(t *toll) {
	for _, f := range t.found {
		p.add(Step{Text: f})
	}
	answer := func(tried, lost, doubled, damaged, part int) string {
		return p.text("toll.answer", "Tried", thousands(tried), "Lost", lost, "Doubled", doubled, "Damaged", damaged, "Part", part, "Recovery", t.recovery(p.words))
	}
	p.expect(p.text(t.class), answer(t.tried, t.lost, t.doubled, t.corrupt, t.broken), answer(max(t.tried, 1), 0, 0, 0, 0))
	p.tolls = append(p.tolls, t.public(p.words))
}
