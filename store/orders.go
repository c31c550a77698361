package store

// The list of orders runs newest decision first; rowid is the order of insertion.
const sqlOrdersPage = `SELECT ` + orderColumns + ` FROM orders WHERE ($1 = 0 OR seq < $1) ORDER BY rowid DESC LIMIT $2`

// A search runs over the primary key: ids that begin with $1, after $2.
const sqlOrdersSearch = `SELECT ` + orderColumns + ` FROM orders WHERE order_id >= $1 AND order_id < $1 || char(1114111) AND order_id > $2
	ORDER BY order_id LIMIT $3`

// Orders lists orders newest first, those with a seq below the given one; 0 means all.
func (tx *Tx) Orders(before int64, limit int) ([]Order, error) {
	return collect(tx, sqlOrdersPage, []any{before, limit}, scanOrder)
}

// SearchOrders lists orders whose id begins with prefix, by id, after the given one.
func (tx *Tx) SearchOrders(prefix, after string, limit int) ([]Order, error) {
	return collect(tx, sqlOrdersSearch, []any{prefix, after, limit}, scanOrder)
}
