package effects

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// Body is what is sent for a ticket: order_id, effect_type (as the ledger calls it) and effect_key, then the
// members of the payload as they stand there, numbers to the last digit. Members of the payload with one
// of these three names are left out. It returns an error that wraps store.ErrUndecodable for a payload that is
// no JSON object or names a member twice.
func Body(payload, orderID, effectType, effectKey string) ([]byte, error) {
	members, err := objectMembers(payload)
	if err != nil {
		return nil, undecodable("%v", err)
	}
	var b bytes.Buffer
	b.WriteString(`{"order_id":` + quoted(orderID) + `,"effect_type":` + quoted(effectType) + `,"effect_key":` + quoted(effectKey))
	for _, m := range members {
		if m.name == "order_id" || m.name == "effect_type" || m.name == "effect_key" {
			continue
		}
		b.WriteString("," + quoted(m.name) + ":")
		if err := json.Compact(&b, m.value); err != nil {
			return nil, undecodable("its member %q can't be read", m.name)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

type member struct {
	name  string
	value json.RawMessage
}

// objectMembers reads a JSON object and nothing after it, in the order of its members, each name once.
func objectMembers(text string) ([]member, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("it is not valid UTF-8")
	}
	d := json.NewDecoder(strings.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var all []member
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, errors.New("it is not JSON")
		}
		m := member{name: name.(string)} // inside an object a token before a value is its name
		if seen[m.name] {
			return nil, errors.New("a member stands in it twice")
		}
		seen[m.name] = true
		if err := d.Decode(&m.value); err != nil {
			return nil, errors.New("it is not JSON")
		}
		all = append(all, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("it is cut short")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return all, nil
}

// quoted is s as a JSON string; '<', '>' and '&' stay as they are.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always can be
	return strings.TrimSuffix(b.String(), "\n")
}
