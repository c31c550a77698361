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
	for _, name := range []string{orderID, effectType, effectKey} {
		if !utf8.ValidString(name) { // as JSON two of these could become one
			return nil, undecodable("what names it is not valid UTF-8")
		}
	}
	members, err := objectMembers(payload)
	if err != nil {
		return nil, undecodable("%v", err)
	}
	if repeats(json.NewDecoder(strings.NewReader(payload))) {
		return nil, undecodable("a member stands in it twice")
	}
	var b bytes.Buffer
	b.WriteString(`{"order_id":` + quoted(orderID) + `,"effect_type":` + quoted(effectType) + `,"effect_key":` + quoted(effectKey))
	for _, m := range members {
		switch fold(m.name) { // many receivers ignore case, and take the last
		case "order_id", "effect_type", "effect_key":
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

// repeats reports whether an object in the next value, however deep, has a name twice, upper and lower case
// alike. The text is known to be JSON, which also bounds its depth.
func repeats(d *json.Decoder) bool {
	open, err := d.Token()
	if err != nil {
		return true
	}
	if open != json.Delim('{') && open != json.Delim('[') {
		return false
	}
	seen := map[string]bool{}
	for d.More() {
		if open == json.Delim('{') {
			token, _ := d.Token()
			name, _ := token.(string)
			if seen[fold(name)] {
				return true
			}
			seen[fold(name)] = true
		}
		if repeats(d) {
			return true
		}
	}
	_, err = d.Token()
	return err != nil
}

// fold makes names alike that a reader which ignores case takes for one. The two steps also catch the letters
// outside ASCII that have k and s as their other case.
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }

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
