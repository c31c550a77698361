// Package receipt makes the proof receipt of an order: plain lines from the event's hash to the effect and a
// verdict, whose SHA-256 anybody can check, since the text is a function of the order's rows and of nothing else.
//
// The form, version 1: the first line names it, the second the order. Then comes one line for each row that the
// file holds of the order, in the order of the one sequence over all tables; what one transaction wrote under one
// number stands in the order of cause and effect. Copies of its events and bodies refused under their ids have none:
// they go on coming for an order that is finished, and change nothing. A line is the row's number, its time (RFC 3339, UTC,
// milliseconds), its kind and fields in a fixed order; a text stands in quotes, a number doesn't, and "-" is what is not there.
// What is not at its end yet is named in a line "open:". The last line is the verdict. It is English everywhere.
//
// Invariants, and the tests that hold them:
//
//   - the form of version 1 doesn't change: TestGolden
//   - a finished order has one receipt for ever: TestTheReceiptStays
//   - no text of a row can make a line, a field or another row's line: TestForgedIDs, FuzzQuote
//   - a line a row, and the queries list the very rows: TestQueriesListTheRows
//   - "exactly once" is only said of what the file proves to be that: TestNeverOnceWithoutProof
package receipt
