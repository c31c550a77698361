package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// callers at the same time, for each measurement of accepting.
var callers = []int{1, 16, 64}

// columns of the figures: orders a second for each number of callers, then tickets worked a second.
var columns = len(callers) + 1

// figures of one kind: for each column, one a round.
type figures map[string][][]float64

// measure takes everybody's figures in turns, so that what the machine does meanwhile falls on all.
func measure(ctx context.Context, p plan, all []kind, dir string) (figures, error) {
	got := figures{}
	for _, k := range all {
		got[k.name] = make([][]float64, columns)
	}
	for round := range p.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, p.rounds)
		for column := range columns {
			for i := range all {
				k := all[(i+round)%len(all)] // nobody is always first
				if k.acceptOnly && column == len(callers) {
					continue
				}
				rate, err := measureOne(ctx, p, k, column, dir)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", k.name, err)
				}
				got[k.name][column] = append(got[k.name][column], rate)
			}
		}
	}
	return got, nil
}

// measureOne takes one figure on a fresh file.
func measureOne(ctx context.Context, p plan, k kind, column int, dir string) (rate float64, err error) {
	dir, err = os.MkdirTemp(dir, strings.NewReplacer(" ", "-", ",", "").Replace(k.name)+"-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	x, err := k.open(ctx, filepath.Join(dir, "peer.db"))
	if err != nil {
		return 0, err
	}
	if column < len(callers) {
		rate, err = accept(ctx, x, callers[column], p.accept)
	} else {
		rate, err = work(ctx, x, max(k.work, p.tickets))
	}
	return rate, errors.Join(err, x.close())
}

// accept returns how many orders a second are promised to so many callers.
func accept(ctx context.Context, x peer, callers int, d time.Duration) (float64, error) {
	warm, _, err := putAll(ctx, x, "W", callers, d/5, 1<<30)
	if err != nil {
		return 0, err
	}
	n, took, err := putAll(ctx, x, "ORD-", callers, d, 1<<30)
	if err != nil {
		return 0, err
	}
	return float64(n) / took.Seconds(), check(ctx, x, rows{put: (warm + n) * perOrder, keys: (warm + n) * perOrder})
}

// putAll puts orders for so long, or until there are most of them. It returns how many were promised.
func putAll(ctx context.Context, x peer, prefix string, callers int, d time.Duration, most int) (int, time.Duration, error) {
	var next, put atomic.Int64
	errs := make([]error, callers)
	began := time.Now()
	var all sync.WaitGroup
	for c := range errs {
		all.Go(func() {
			for time.Since(began) < d && errs[c] == nil {
				i := next.Add(1)
				if i > int64(most) {
					return
				}
				if errs[c] = x.put(ctx, order{fmt.Sprintf("%s%d", prefix, i)}); errs[c] == nil {
					put.Add(1)
				}
			}
		})
	}
	all.Wait()
	return int(put.Load()), time.Since(began), errors.Join(errs...)
}

// work returns how many tickets a second are worked, from n that wait.
func work(ctx context.Context, x peer, n int) (float64, error) {
	orders := n / perOrder
	n = orders * perOrder
	if _, _, err := putAll(ctx, x, "ORD-", 64, time.Hour, orders); err != nil {
		return 0, err
	}
	if err := check(ctx, x, rows{put: n, keys: n}); err != nil {
		return 0, err
	}
	if r, ok := x.(interface{ ready(context.Context) error }); ok {
		if err := r.ready(ctx); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	if err := x.work(ctx, n); err != nil {
		return 0, err
	}
	took := time.Since(began)
	return float64(n) / took.Seconds(), check(ctx, x, rows{put: n, keys: n, done: n, most: 1})
}

// check compares what the file holds with what was promised.
func check(ctx context.Context, x peer, want rows) error {
	got, err := x.rows(ctx)
	if err == nil && got != want {
		err = fmt.Errorf("the file holds %+v instead of %+v", got, want)
	}
	return err
}
