package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	claimKills = "Kills: servers die at every point of an order's walk while orders come in; each acknowledged order is there with exactly its effects."
	claimPower = "Power: the power is cut after any operation of the disk; what was acknowledged is there, nothing is there by half, no file is damaged."
	claimDisk  = "Disk: reads, writes and syncs fail, once or until the disk is well; no order is acknowledged that is not kept, and the same process goes on."
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
	p.say("Killed: %s. %s orders were acknowledged; %s answers were to orders that were sent again.", k.where(), thousands(len(k.acknowledged)), thousands(k.resent))
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
	p.say("Orders, alone and side by side, a restart between them. After each write, truncate, sync, creation and removal the power is cut in five ways: nothing that was " +
		"not synced is there; all of it; some sectors of it; one file's and not another's; names undone. What is left is opened by this program:")
	p.answerFor(t)
	p.say("The same with synchronous=NORMAL, which does not sync a commit: if nothing were lost now, this proof could see no loss.")
	if lab, err = p.laboratory("normal"); err != nil {
		return err
	}
	lab.synchronous = "NORMAL"
	if t, err = lab.cutPower(ctx, faultTime/5); err != nil {
		return err
	}
	p.expect("acknowledged orders are lost", fmt.Sprint(t.lost > 0), "true")
	p.expect("files are damaged, or something is there by half", fmt.Sprint(t.corrupt+t.broken > 0), "false")
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
	p.say("Six orders are sent while the disk fails: at its first read, write or sync, its second, and so on. Each is answered with 200, or with 503, a reason and a time " +
		"to come again. Then the disk is well: the same process takes them all, carries them out, and the file is looked through.")
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
	p.expect(t.class, fmt.Sprintf("tried %s, lost %d, doubled %d, damaged %d, in part %d; orders are taken again in %s", thousands(t.tried), t.lost, t.doubled, t.corrupt, t.broken, t.recovery()),
		fmt.Sprintf("tried %s, lost 0, doubled 0, damaged 0, in part 0; orders are taken again in %s", thousands(max(t.tried, 1)), t.recovery()))
	p.tolls = append(p.tolls, t.public())
}
