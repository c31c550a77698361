package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	sqlitelib "modernc.org/sqlite/lib"
)

// Verified is what a look through the whole file came to.
type Verified struct {
	Lost        int64  // events, decisions or tickets that were answered for and are not there
	Contradicts int64  // rows that say what others deny
	Damage      string // what SQLite's quick_check found; "" for nothing
}

// verifyRows is how many rows one look goes through: a reader that looks on and on would keep the -wal from being
// used anew.
const verifyRows = 5000

const sqlTables = `SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite_stat%' ORDER BY name`

// What was answered for, in slices of a table by its rowid: so many rows after the last slice, however far apart
// their ids lie and whichever side of 0.
const (
	sqlEventSlice  = `SELECT max(n) FROM (SELECT rowid AS n FROM events WHERE rowid > $1 ORDER BY rowid LIMIT $2)`
	sqlOrderSlice  = `SELECT max(n) FROM (SELECT rowid AS n FROM orders WHERE rowid > $1 ORDER BY rowid LIMIT $2)`
	sqlTicketSlice = `SELECT max(n) FROM (SELECT id AS n FROM outbox WHERE id > $1 ORDER BY id LIMIT $2)`
	sqlEffectSlice = `SELECT max(n) FROM (SELECT id AS n FROM external_effects_log WHERE id > $1 ORDER BY id LIMIT $2)`

	sqlUndecided  = `SELECT count(*) FROM events AS e WHERE e.rowid > $1 AND e.rowid <= $2 AND NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.order_id = e.order_id)`
	sqlUnticketed = `SELECT count(*) FROM orders AS o WHERE o.rowid > $1 AND o.rowid <= $2 AND (` + lacksTickets + `)`
	sqlUncaused   = `SELECT count(*) FROM orders AS o WHERE o.rowid > $1 AND o.rowid <= $2 AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.event_id = o.event_id)`
	sqlUnledgered = `SELECT count(*) FROM outbox AS t WHERE t.id > $1 AND t.id <= $2 AND t.status = 'done' AND NOT EXISTS (SELECT 1 FROM ledger AS l WHERE l.effect_key = t.idempotency_key)`
	sqlTwice      = `SELECT count(*) FROM external_effects_log AS e WHERE e.id > $1 AND e.id <= $2 AND EXISTS (SELECT 1 FROM external_effects_log AS f WHERE f.effect_key = e.effect_key AND f.id < e.id)`
	// The ledger has no rowid: slices by key. The newest key of the slice, and how many of it the world does not know.
	sqlUnacted = `SELECT max(effect_key), coalesce(sum(unacted), 0) FROM (SELECT l.effect_key, l.how = 'local' AND NOT EXISTS
		(SELECT 1 FROM external_effects_log AS e WHERE e.effect_key = l.effect_key) AS unacted FROM ledger AS l WHERE l.effect_key > $1 ORDER BY l.effect_key LIMIT $2)`
)

// An order o of which no ticket is there, or not all that its decision asks for: a refund, or one for each SKU of its
// lines. They are counted by the order's id; only where they are too few is each looked for by its key, as a ticket
// that was there before under another id, or in the ledger. Lines that can't be read ask for nothing.
const (
	lacksTickets = `NOT EXISTS (SELECT 1 FROM outbox AS t WHERE t.aggregate_id = o.order_id) OR CASE o.decision
		WHEN 'refund' THEN NOT EXISTS (SELECT 1 FROM outbox AS t WHERE t.aggregate_id = o.order_id AND t.effect_type = '` + TicketIssueRefund + `') AND ` + noRefundKey + `
		ELSE (SELECT count(*) FROM outbox AS t WHERE t.aggregate_id = o.order_id AND t.effect_type = '` + TicketInventorySync + `') < (SELECT count(DISTINCT ` + lineSKU + `) FROM ` + orderLines + `)
		AND EXISTS (SELECT 1 FROM ` + orderLines + ` WHERE ` + noLineKey + `) END`
	orderLines  = `json_each(CASE WHEN json_valid(o.line_items) THEN o.line_items ELSE '[]' END) AS l`
	lineSKU     = `CASE l.type WHEN 'object' THEN json_extract(l.value, '$.sku') END`
	orderInKey  = `replace(replace(o.order_id, '%', '%25'), ':', '%3A')`
	refundKey   = `'` + LedgerRefund + `:' || ` + orderInKey
	lineKey     = `'` + LedgerInventory + `:' || ` + orderInKey + ` || ':' || replace(replace(` + lineSKU + `, '%', '%25'), ':', '%3A')`
	noRefundKey = `NOT EXISTS (SELECT 1 FROM outbox AS t WHERE t.idempotency_key = ` + refundKey + `) AND NOT EXISTS (SELECT 1 FROM ledger AS e WHERE e.effect_key = ` + refundKey + `)`
	noLineKey   = lineSKU + ` IS NOT NULL AND NOT EXISTS (SELECT 1 FROM outbox AS t WHERE t.idempotency_key = ` + lineKey + `) AND NOT EXISTS (SELECT 1 FROM ledger AS e WHERE e.effect_key = ` + lineKey + `)`
)

// Verify looks through the whole file: SQLite's quick_check, whether every event that was accepted has its
// decision and every decision its event and all its tickets, and whether outbox, ledger and effects agree. It may take minutes, on a connection of its own and
// in slices, so it keeps nobody; ctx ends it at any moment.
func (db *DB) Verify(ctx context.Context) (v Verified, err error) {
	c, done, err := db.aside(ctx, readerDSN(db.path, db.opt.BusyTimeout))
	if err != nil {
		return v, fmt.Errorf("look through the file: %w", err)
	}
	defer func() { err = errors.Join(err, done()) }()
	if v.Damage, err = quickCheck(ctx, c); err != nil || v.Damage != "" {
		return v, err
	}
	if err = lookThrough(ctx, c, &v); damaged(err) {
		v.Damage, err = damageInWords, nil
	}
	return v, err
}

// damageInWords is what is found where SQLite can't even go on.
const damageInWords = "pages of it can't be read as what they should be"

func damaged(err error) bool {
	return code(err) == sqlitelib.SQLITE_CORRUPT || code(err) == sqlitelib.SQLITE_NOTADB
}

// quickCheck goes through the file table by table, each with its indexes in a look of its own.
func quickCheck(ctx context.Context, c *sql.Conn) (damage string, err error) {
	tables, err := texts(ctx, c, sqlTables)
	for _, table := range tables {
		if err != nil {
			break
		}
		var found []string
		found, err = texts(ctx, c, `PRAGMA quick_check("`+strings.ReplaceAll(table, `"`, `""`)+`")`)
		if err == nil && strings.Join(found, "; ") != "ok" {
			return strings.Join(found[:min(len(found), 5)], "; "), nil
		}
	}
	if damaged(err) {
		return damageInWords, nil
	}
	if err != nil {
		return "", fmt.Errorf("check the pages: %w", err)
	}
	return "", nil
}

func texts(ctx context.Context, c *sql.Conn, query string) (all []string, err error) {
	rows, err := c.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

func lookThrough(ctx context.Context, c *sql.Conn, v *Verified) error {
	for _, look := range []struct {
		table, slice, text string
		into               *int64
	}{
		{"events", sqlEventSlice, sqlUndecided, &v.Lost}, {"orders", sqlOrderSlice, sqlUnticketed, &v.Lost}, {"orders", sqlOrderSlice, sqlUncaused, &v.Lost},
		{"outbox", sqlTicketSlice, sqlUnledgered, &v.Contradicts}, {"external_effects_log", sqlEffectSlice, sqlTwice, &v.Contradicts},
	} {
		if err := inSlices(ctx, c, look.slice, look.text, look.into); err != nil {
			return fmt.Errorf("look through %s: %w", look.table, err)
		}
	}
	for after := ""; ; {
		var last sql.NullString
		var n int64
		if err := c.QueryRowContext(ctx, sqlUnacted, after, verifyRows).Scan(&last, &n); err != nil {
			return fmt.Errorf("look through the ledger: %w", err)
		}
		v.Contradicts += n
		if !last.Valid {
			return nil
		}
		after = last.String
	}
}

// inSlices adds up what a query counts in each slice of a table; slice says where the next one ends.
func inSlices(ctx context.Context, c *sql.Conn, slice, text string, sum *int64) error {
	for from := int64(math.MinInt64); ; {
		var last sql.NullInt64
		if err := c.QueryRowContext(ctx, slice, from, verifyRows).Scan(&last); err != nil || !last.Valid {
			return err
		}
		var n int64
		if err := c.QueryRowContext(ctx, text, from, last.Int64).Scan(&n); err != nil {
			return err
		}
		*sum += n
		from = last.Int64
	}
}
