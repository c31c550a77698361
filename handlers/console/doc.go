// Package console is the operator's page: what a person at a counter sees of the rail and does to it, on the
// appliance's own address, without anything from elsewhere and with JavaScript switched off.
//
// Each page is written by the server as a whole (templates/*.html around templates/layout.html). With JavaScript one
// stream a browser (GET /events) says that something changed, and the page then asks for its own middle part again
// (static/live.js). Nothing is decided here: what an operator does goes through package hand, as from the API and
// the command line.
//
// Invariants, and the tests that hold them:
//
//   - only this machine sees a page, under this machine's names: TestOnlyThisMachine
//   - no script or style but our own files runs, whatever an order holds: TestNoForeignScript, e2e's TestConsoleLooks
//   - both languages say everything, with the same placeholders: TestWordsAgree
//   - every list names what exists, and its counters follow its filter: TestRailCounts
//   - a stream ends with the server and misses no change: TestEvents; it outlives the server's time-outs: TestStreamOutlivesTimeouts
package console
