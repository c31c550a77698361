package store

// Bucket is what came to pass in one of several equal spans of time.
type Bucket struct {
	From    int64 // Unix milliseconds; the span ends where the next one begins
	Orders  int64 // decided in it
	Effects int64 // gone out in it: the lab's, and sends that are known to have been carried out
}

// The first row at or after a place, by rowid: rows come in about the order of their time.
const (
	sqlOrderFrom   = `SELECT rowid, decided_at FROM orders WHERE rowid >= $1 ORDER BY rowid LIMIT 1`
	sqlEffectFrom  = `SELECT id, occurred_at FROM external_effects_log WHERE id >= $1 ORDER BY id LIMIT 1`
	sqlAttemptFrom = `SELECT id, begun_at FROM attempts WHERE id >= $1 ORDER BY id LIMIT 1`

	sqlLastOrder   = `SELECT coalesce(max(rowid), 0) FROM orders`
	sqlLastEffect  = `SELECT coalesce(max(id), 0) FROM external_effects_log`
	sqlLastAttempt = `SELECT coalesce(max(id), 0) FROM attempts`
)

// The sends of a span that are known to have been carried out, by attempts_done for one target after the other.
const sqlSentBetween = `SELECT count(*) FROM targets CROSS JOIN attempts ON attempts.target = targets.name
	WHERE attempts.kind = 'send' AND attempts.outcome = 'done' AND attempts.id >= $1 AND attempts.id < $2`

// Activity counts what was decided and what went out between two times (Unix milliseconds), in equal spans. No time
// is indexed: the borders are searched for among the rowids, since rows come in about the order of time, and what
// lies between two is counted by the difference. So a row that somebody deleted counts all the same. Where a clock was
// set back or forward the times are in no order, and the rows of that hour stand in a span beside theirs, but each in
// one alone. A send counts where it began; what a lookup or a person has found out counts nowhere.
func (tx *Tx) Activity(from, to int64, buckets int) ([]Bucket, error) {
	if buckets < 1 || to <= from {
		return []Bucket{}, nil
	}
	edges := make([]int64, buckets+1)
	for i := range edges {
		edges[i] = from + (to-from)/int64(buckets)*int64(i) + (to-from)%int64(buckets)*int64(i)/int64(buckets)
	}
	orders, err := tx.borders(sqlOrderFrom, sqlLastOrder, edges)
	if err != nil {
		return nil, err
	}
	effects, err := tx.borders(sqlEffectFrom, sqlLastEffect, edges)
	if err != nil {
		return nil, err
	}
	sends, err := tx.borders(sqlAttemptFrom, sqlLastAttempt, edges)
	if err != nil {
		return nil, err
	}
	all := make([]Bucket, buckets)
	for i := range all {
		sent, err := tx.sentBetween(sends[i], sends[i+1])
		if err != nil {
			return nil, err
		}
		all[i] = Bucket{From: edges[i], Orders: orders[i+1] - orders[i], Effects: effects[i+1] - effects[i] + sent}
	}
	return all, nil
}

func (tx *Tx) sentBetween(from, to int64) (n int64, err error) {
	if from >= to {
		return 0, nil
	}
	_, err = tx.find(sqlSentBetween, []any{from, to}, &n)
	return n, err
}

// borders returns for each time the place from which on rows are as young as that; times ascend, and so do places.
func (tx *Tx) borders(row, last string, times []int64) ([]int64, error) {
	var end int64
	if _, err := tx.find(last, nil, &end); err != nil {
		return nil, err
	}
	all := make([]int64, len(times))
	return all, tx.search(row, times, all, 1, end+1)
}

// search finds the borders of times, which lie between from and to, beginning with the middle one: the others lie
// on this or that side of it.
func (tx *Tx) search(row string, times, borders []int64, from, to int64) error {
	if len(times) == 0 {
		return nil
	}
	middle := len(times) / 2
	at, err := tx.border(row, times[middle], from, to)
	if err != nil {
		return err
	}
	borders[middle] = at
	if err := tx.search(row, times[:middle], borders[:middle], from, at); err != nil {
		return err
	}
	return tx.search(row, times[middle+1:], borders[middle+1:], at, to)
}

// border is the first place between from and to at which the next row is as young as time, or to.
func (tx *Tx) border(row string, time, from, to int64) (int64, error) {
	for from < to {
		middle := from + (to-from)/2
		var id, at int64
		found, err := tx.find(row, []any{middle}, &id, &at)
		switch {
		case err != nil:
			return 0, err
		case !found || id >= to || at >= time:
			to = middle
		default:
			from = id + 1
		}
	}
	return from, nil
}
