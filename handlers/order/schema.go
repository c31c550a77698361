package order

import _ "embed"

// Schema is the JSON Schema (2020-12) of an order's body, for senders. Every body that Decode takes fits it. What it can't
// say, and Decode refuses all the same, stands in its $comment: TestSchemaSaysWhatItCannot.
//
//go:embed order.schema.json
var Schema []byte
