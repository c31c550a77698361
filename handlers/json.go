package handlers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"
)

// encode writes v as JSON without a final newline. Only what JSON itself needs is escaped: an id with
// an ampersand stays readable, and a payload is the same text everywhere.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// text is encode for values that can't fail: strings and structs of strings and numbers.
func text(v any) string {
	b, err := encode(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// writeJSON answers with v.
func writeJSON(c echo.Context, status int, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	return c.Blob(status, "application/json", append(b, '\n'))
}

// ok answers 200 with v, or returns err.
func ok(c echo.Context, v any, err error) error {
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, v)
}
