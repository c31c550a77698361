package cli

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"comanda/store"
)

func (c *sqlCmd) Run(s *session) error {
	if strings.TrimSpace(c.Query) == "" {
		return Usage(errors.New("sql needs a query, such as 'SELECT * FROM outbox_v'"))
	}
	var answer store.Answer
	err := s.withFile(c.DB, func(db *store.DB) (err error) {
		answer, err = db.Peek(s.ctx, c.Query)
		switch {
		case s.ctx.Err() != nil:
			return errors.New("the query was interrupted")
		case errors.Is(err, store.ErrRefused):
			return errors.New(err.Error()) // the query failed; no setting is wrong
		case err != nil:
			return fmt.Errorf("the query failed: %w", err)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return s.json(objects(answer))
	}
	return s.table(func(row func(...string)) {
		row(answer.Columns...)
		for _, values := range answer.Rows {
			cells := make([]string, len(values))
			for i, v := range values {
				cells[i] = cell(v)
			}
			row(cells...)
		}
	})
}

func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return v
	case []byte:
		if utf8.Valid(v) {
			return string(v)
		}
		return "X'" + strings.ToUpper(hex.EncodeToString(v)) + "'"
	}
	return fmt.Sprint(v)
}

// object is one row as a JSON object whose members stand in the order of the columns.
type object struct {
	names  []string
	values []any
}

// objects names equal columns apart, since a JSON object with a name twice reads as one of them.
func objects(a store.Answer) []object {
	names := make([]string, len(a.Columns))
	seen := map[string]bool{}
	for i, column := range a.Columns {
		name := column
		for n := 2; seen[name]; n++ {
			name = column + ":" + strconv.Itoa(n)
		}
		seen[name] = true
		names[i] = name
	}
	all := make([]object, len(a.Rows))
	for i, row := range a.Rows {
		all[i] = object{names, row}
	}
	return all
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, name := range o.names {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := e.Encode(name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := e.Encode(jsonValue(o.values[i])); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// jsonValue keeps what JSON has; bytes are text where they are valid UTF-8, and infinities, which it
// has not, are text too.
func jsonValue(v any) any {
	switch v := v.(type) {
	case []byte:
		return cell(v)
	case float64:
		if math.IsInf(v, 0) {
			return cell(v)
		}
	}
	return v
}
