// Command peers measures comanda beside what a shop could pick instead, in one run: River on SQLite,
// goqite, backlite, the plain version by hand with a transaction each, and PocketBase. All get the same tickets, the
// same SQLite, the same pragmas and a fresh file in the same directory; who measures what is in turns,
// and the medians are told, ratios first. It is a module of its own, so that none of them is ever a
// dependency of comanda.
//
//	cd e2e/peers && go run . [-short] [-dir DIR]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// plan is how much is measured.
type plan struct {
	rounds  int
	accept  time.Duration // of each measurement of accepting
	tickets int           // that each of the others works in one measurement
	ours    int           // that comanda works: it would be done with the others' before the clock has turned

	pocketbase bool // is measured too; it takes a minute to build
}

var (
	full  = plan{rounds: 5, accept: 2 * time.Second, tickets: 6_000, ours: 60_000, pocketbase: true}
	short = plan{rounds: 3, accept: 350 * time.Millisecond, tickets: 1_500, ours: 15_000}
)

func main() {
	brief := flag.Bool("short", false, "less of everything, without PocketBase, in under a minute")
	dir := flag.String("dir", "", "directory of the files; its disk is what is measured (default: the system's for temporary files)")
	flag.Parse()
	p := full
	if *brief {
		p = short
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, p, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, p plan, parent string) (err error) {
	dir, err := os.MkdirTemp(parent, "peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	exe := filepath.Join(dir, "comanda")
	if err := build(ctx, exe); err != nil {
		return err
	}
	all := append([]kind{comandaKind(exe, p.ours)}, others()...)
	if p.pocketbase {
		more, err := pocketbaseKinds(ctx, filepath.Join(dir, "pocketbase"))
		if err != nil {
			return err
		}
		all = append(all, more...)
	}
	figures, err := measure(ctx, p, all, dir)
	if err != nil {
		return err
	}
	return printAll(ctx, os.Stdout, p, all, figures, dir)
}

// others are those that comanda is measured beside.
func others() []kind { return []kind{riverKind, goqiteKind, backliteKind, plainKind, plainHTTPKind} }
