package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// The proof of the fence is for the mutations: proof relays shows a late relay too, but that one finds
// its lease over before it acts, and so never comes to the fence.
const claimFence = "The fence: a relay that is stopped between carrying a ticket out and writing that down, past its lease, changes nothing."

func fenceProof() entry { return entry{name: "fence", claim: claimFence, run: proveFence} }

const fenceLease = "4s" // time enough to come to the settlement

func proveFence(ctx context.Context, p *proof) error {
	s, err := p.serve("", "--no-relay") // makes the file
	if err != nil {
		return err
	}
	if err := p.endAll(ctx, s); err != nil {
		return err
	}
	if err := p.byHand(ctx, sqlTicketAgain, 1); err != nil {
		return err
	}
	late, err := p.relay("late relay", "relay.claimed:stop", "--lease", fenceLease)
	if err != nil {
		return err
	}
	if err := late.waitStopped(ctx); err != nil {
		return err
	}
	other, err := p.relay("other relay", "", "--lease", fenceLease)
	if err != nil {
		return err
	}
	if err := p.until(ctx, fmt.Sprintf("SELECT count(*) FROM relays WHERE holder='%s'", other.holder), "1"); err != nil {
		return err
	}
	p.say("The other relay has seen the claim. The late one is continued while another client holds the write lock, and stopped once it has carried its ticket out:")
	if err := stopWhileSettling(ctx, p, late); err != nil {
		return err
	}
	p.ask(ctx, "SELECT status, attempts FROM outbox;", "processing | 1")
	if err := p.untilDrained(ctx); err != nil {
		return err
	}
	p.ask(ctx, "SELECT status, attempts FROM outbox;", "done | 2")
	before := p.show(ctx, sqlFingerprint)
	p.say("The ticket was taken over and is done. The late relay goes on and settles:")
	outcome := late.watch(`"msg":"ticket"`)
	late.resume()
	if _, err := late.await(ctx, outcome, "the end of its claim"); err != nil {
		return err
	}
	p.ask(ctx, sqlFingerprint, before)
	p.ask(ctx, sqlEffects2041, "1")
	p.invariants(ctx)
	return p.endAll(ctx, late, other)
}

// stopWhileSettling lets a stopped relay carry its claim out, keeps it from writing that down by
// holding the write lock, and stops it again.
func stopWhileSettling(ctx context.Context, p *proof, late *child) (err error) {
	o, err := openOutside(p.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if _, err := o.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	late.resume()
	if err := untilCarried(ctx, p.file+".relay-"+late.holder+".lock"); err != nil {
		return err
	}
	late.halt()
	if err := late.waitStopped(ctx); err != nil {
		return err
	}
	_, err = o.exec(ctx, "ROLLBACK")
	return err
}

// untilCarried watches the lock file of a relay: it names the tickets that are being carried out, and
// 0 for one that was, in the slot of the worker; slots that were never used hold zero bytes.
func untilCarried(ctx context.Context, lockFile string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		text, err := os.ReadFile(lockFile)
		if err != nil {
			return err
		}
		text, _, _ = bytes.Cut(text, []byte("s")) // from there on it is how far the sequence reached
		if strings.Contains(string(text), "0") && strings.Trim(string(text), "\x000\n") == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the late relay carried nothing out; its lock file reads %q", text)
		case <-ticker.C:
		}
	}
}
