package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"comanda/schema"
)

const sqlSchema = `SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL`

// lookAtSchema compares the file's tables, indexes, views and triggers with those of the embedded steps.
// What somebody added is his own affair; what is missing or changed is wrong.
func (db *DB) lookAtSchema(ctx context.Context) []Check {
	want, err := schemaOfSteps(ctx)
	if err != nil {
		return []Check{{Name: "schema", SQL: sqlSchema, Level: LevelWrong, Answer: err.Error()}}
	}
	return []Check{db.ask(ctx, "schema", sqlSchema, func(a Answer, c *Check) {
		have := map[string]string{}
		for _, row := range a.Rows {
			have[fmt.Sprint(row[0])] = fmt.Sprint(row[1])
		}
		var wrong []string
		for name, text := range want {
			if have[name] != text {
				wrong = append(wrong, name)
			}
		}
		c.Answer = fmt.Sprintf("%d objects as they should be", len(want)-len(wrong))
		if len(wrong) > 0 {
			c.Level, c.Detail = LevelWrong, "missing or changed by hand: "+strings.Join(wrong, ", ")
		}
	})}
}

// schemaOfSteps applies the steps in memory and reads what came of it.
func schemaOfSteps(ctx context.Context) (map[string]string, error) {
	steps, err := schema.Steps()
	if err != nil {
		return nil, err
	}
	mem, err := sql.Open(driverName, ":memory:")
	if err != nil {
		return nil, fmt.Errorf("open SQLite: %w", err)
	}
	defer mem.Close()
	mem.SetMaxOpenConns(1) // each connection has a memory of its own
	for _, step := range steps {
		if _, err := mem.ExecContext(ctx, step.SQL); err != nil {
			return nil, fmt.Errorf("apply %s in memory: %w", step.Name, err)
		}
	}
	rows, err := mem.QueryContext(ctx, sqlSchema)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	defer rows.Close()
	want := map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, fmt.Errorf("read the schema: %w", err)
		}
		want[name] = text
	}
	return want, rows.Err()
}
