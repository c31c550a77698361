package effects

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"comanda/store"
)

// Letter is what is sent for a ticket; ledgerType is what the ledger calls its effect. Its error wraps
// store.ErrUndecodable.
func (t *Target) Letter(w store.Work, ledgerType string) (store.Letter, error) {
	body, err := Body(w.Payload, w.OrderID, ledgerType, w.EffectKey)
	return store.Letter{Key: WireKey(w.EffectKey), Body: body}, err
}

// maxWireKey is how long a key may be on the wire, in bytes; it is what large gateways take
// (https://docs.stripe.com/api/idempotent_requests).
const maxWireKey = 255

// WireKey is an idempotency key as it goes over the wire, where header values are trimmed and held to visible
// ASCII: every byte outside 0x21–0x7E and '"' and '\' is percent-encoded, and what is longer than 255 bytes
// then becomes "comanda-" and the hex SHA-256 of the key.
//
// A '%' stays as it is: in the keys that the director makes it already begins an escape (store.Key), so two
// of these never share a wire form. Keys of tickets put in by hand may: "a b" and "a%20b" do.
func WireKey(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; c < 0x21 || c > 0x7E || c == '"' || c == '\\' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	if b.Len() <= maxWireKey {
		return b.String()
	}
	sum := sha256.Sum256([]byte(key))
	return "comanda-" + hex.EncodeToString(sum[:])
}
