package store

import (
	"context"
	"database/sql"
	"time"
)

// othersWithin is how long a look at the file's version may take.
const othersWithin = time.Second

// OthersVersion is a text that differs from one time to the next when another process, or another client, has
// committed to the file in between (https://sqlite.org/pragma.html#pragma_data_version). It asks the writer's own
// connection, so what this process writes changes nothing, and it costs a look at shared memory.
func (db *DB) OthersVersion(ctx context.Context) (version string, err error) {
	err = db.errand(ctx, othersWithin, func(ctx context.Context, c *sql.Conn) (err error) {
		version, err = readPragma(ctx, c, "data_version")
		return err
	})
	return version, translate(err)
}
