package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// childOpen opens, looks at and closes the file that each line names.
func childOpen(_ []string, in *bufio.Scanner, out io.Writer) error {
	fmt.Fprintln(out, "ready")
	for in.Scan() {
		db, err := Open(context.Background(), in.Text(), Options{Readers: 1})
		if err != nil {
			return err
		}
		a, err := db.Query(context.Background(), `SELECT count(*) FROM schema_steps`)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "steps", a.Rows[0][0])
		if err := db.Close(); err != nil {
			return err
		}
	}
	return nil
}

// childHold claims what is there, begins the first ticket and says "claimed TOKEN HOLDER ID …". At each
// line that it reads it tries to settle everything and says how that ended.
func childHold(args []string, in *bufio.Scanner, out io.Writer) error {
	ctx := context.Background()
	lease, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	db, err := Open(ctx, args[0], Options{Readers: 1})
	if err != nil {
		return err
	}
	h, err := db.NewHolder(ctx, 2)
	if err != nil {
		return err
	}
	c, err := db.Claim(ctx, ClaimRequest{Limit: 10, Lease: lease, Holder: h.ID})
	if err != nil {
		return err
	}
	if _, err := h.Begin(c.Tickets[0].ID); err != nil {
		return err
	}
	words := []string{"claimed", c.Token, h.ID}
	for _, t := range c.Tickets {
		words = append(words, strconv.FormatInt(t.ID, 10))
	}
	fmt.Fprintln(out, strings.Join(words, " "))
	for in.Scan() {
		var ends []string
		err := db.Update(ctx, func(tx *Tx) error {
			ends = nil
			for _, t := range c.Tickets {
				end, err := settle(tx, c.Token, t)
				if err != nil {
					return err
				}
				ends = append(ends, string(end))
			}
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintln(out, strings.Join(ends, " "))
	}
	return nil
}

// childDrain claims and settles once, then, with the others, until nothing waits. It says "claim TOKEN ID …"
// for each claim and "drained" at the end.
func childDrain(args []string, in *bufio.Scanner, out io.Writer) error {
	ctx := context.Background()
	batch, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	db, err := Open(ctx, args[0], Options{Readers: 1})
	if err != nil {
		return err
	}
	h, err := db.NewHolder(ctx, 1)
	if err != nil {
		return err
	}
	watch := db.NewWatch("another")
	if _, err := drainOnce(ctx, db, watch, h.ID, batch, out); err != nil {
		return err
	}
	in.Scan() // all go on at once
	for {
		left, err := drainOnce(ctx, db, watch, h.ID, batch, out)
		if err != nil {
			return err
		}
		if !left {
			break
		}
	}
	if err := errors.Join(h.Close(), db.Close()); err != nil {
		return err
	}
	fmt.Fprintln(out, "drained")
	return nil
}

func drainOnce(ctx context.Context, db *DB, watch *Watch, holder string, batch int, out io.Writer) (left bool, err error) {
	void, err := watch.Void(ctx)
	if err != nil {
		return false, err
	}
	c, err := db.Claim(ctx, ClaimRequest{Limit: batch, Lease: time.Minute, Holder: holder, Void: void})
	watch.Done(void, err == nil)
	if err != nil {
		return false, err
	}
	if len(c.Tickets) > 0 {
		fmt.Fprintln(out, "claim", c.Token, strings.Trim(fmt.Sprint(idsOf(c.Tickets)), "[]"))
	}
	err = db.Update(ctx, func(tx *Tx) error {
		for _, t := range c.Tickets {
			end, err := settle(tx, c.Token, t)
			if err == nil && end != Done {
				err = fmt.Errorf("ticket %d ended %q", t.ID, end)
			}
			if err != nil {
				return err
			}
		}
		counts, err := tx.Counts()
		left = counts.Waiting() > 0
		return err
	})
	return left, err
}
