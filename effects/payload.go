package effects

import (
	"encoding/json"
	"fmt"
	"strings"

	"comanda/store"
)

// decode reads a payload into p, a pointer to a struct; numbers stay text. Unknown fields are
// ignored: a ticket put in by hand may carry notes.
func decode(payload string, p any) error {
	d := json.NewDecoder(strings.NewReader(payload))
	d.UseNumber()
	if err := d.Decode(p); err != nil {
		return undecodable("it is not the JSON object that this effect reads")
	}
	if d.More() {
		return undecodable("something follows the JSON object")
	}
	return nil
}

func undecodable(format string, args ...any) error {
	return fmt.Errorf("%w: %s", store.ErrUndecodable, fmt.Sprintf(format, args...))
}
