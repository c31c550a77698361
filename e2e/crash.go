package e2e

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// CrashVar is the environment variable that plans a crash: NAME[:N][:stop] sends the process SIGKILL,
// or SIGSTOP, at the N-th time it passes the crash point NAME.
const CrashVar = "COMANDA_CRASH_AT"

// CrashPointNames are the points that a process passes on an order's walk.
var crashPointNames = []string{
	"triage.before_commit", "triage.after_commit", "relay.claimed", "effect.before_commit", "effect.after_commit",
	"effect.before_send", "effect.after_send",
}

// CrashPoints reads a plan and returns the function that every crash point calls; of an empty plan that is nil. A plan
// is announced on warn. still runs what it is given while the process is in no write transaction: a stop that is planned
// outside of one must not come upon another part of the process in the middle of its own, whose lock would then be held
// for as long as the process is stopped.
func CrashPoints(plan string, warn io.Writer, still func(func())) (func(point string), error) {
	if plan == "" {
		return nil, nil
	}
	name, nth, signal, err := parsePlan(plan)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(warn, "!!! %s=%s: this process will be sent %s at %s, time %d. For proofs only.\n", CrashVar, plan, signal, name, nth)
	var passed atomic.Int64
	return func(point string) {
		switch {
		case point != name || passed.Add(1) != nth:
		case signal == stop && !inTransaction(point):
			still(signal.sendToSelf)
		default:
			signal.sendToSelf()
		}
	}, nil
}

// inTransaction tells the points that a process passes in the middle of a write transaction.
func inTransaction(point string) bool { return strings.HasSuffix(point, ".before_commit") }

func parsePlan(plan string) (name string, nth int64, signal selfSignal, err error) {
	parts := strings.Split(plan, ":")
	name, nth, signal = parts[0], 1, kill
	if !slices.Contains(crashPointNames, name) {
		return "", 0, "", fmt.Errorf("%s=%s names no crash point: take one of %s", CrashVar, plan, strings.Join(crashPointNames, ", "))
	}
	rest := parts[1:]
	if len(rest) > 0 && rest[len(rest)-1] == "stop" {
		signal, rest = stop, rest[:len(rest)-1]
	}
	if len(rest) == 1 {
		nth, err = strconv.ParseInt(rest[0], 10, 64)
	}
	if len(rest) > 1 || err != nil || nth < 1 {
		return "", 0, "", fmt.Errorf("%s=%s is not NAME[:N][:stop] with N from 1", CrashVar, plan)
	}
	return name, nth, signal, nil
}

// selfSignal is what a process sends itself at a crash point.
type selfSignal string

const (
	kill selfSignal = "SIGKILL"
	stop selfSignal = "SIGSTOP"
)
