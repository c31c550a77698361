// Package order turns the raw bytes of a webhook body into an order.
//
// It is strict where encoding/json is forgiving, because every leniency there
// is a way for two different orders to look the same: keys are compared byte
// for byte, a key that stands twice is an error at every depth, invalid UTF-8
// is an error, and no amount ever passes through a float.
//
// A body goes through two steps. The scanner (scan.go) reads it once from the
// first byte to the last, keeps to the grammar of RFC 8259 and notes where the
// fields of an order stand. The checker (check.go) then looks at those fields
// alone. So a body that isn't JSON is always bad-json, one with a doubtful key
// always duplicate-key, and only what is left can be an invalid-order.
//
// Invariants, and the tests that hold them:
//
//   - what the scanner accepts is JSON, and all of it: TestScannerAgreesWithEncodingJSON
//   - no spelling of an order changes its digest, every value does:
//     TestDigestIgnoresSpelling, TestDigestChangesWithEveryValue
//   - two keys are one key exactly when their UTF-16 code units are equal:
//     TestDuplicateKeys
//   - an amount keeps every digit: TestAmountsAreExact
//   - no body can make it panic, hang or recurse without end: FuzzDecode,
//     TestHostileBodies
package order
