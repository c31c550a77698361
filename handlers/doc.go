// Package handlers is the deciding half of comanda: the HTTP server, the director that turns an event
// into tickets, and the API that shows what became of them. It writes tickets and never carries one
// out; what carries them out is handed in as functions.
//
// A request's walk: observe (request id, log line) → guard (panics) → limit → host check → cross-origin check →
// echo's router → a handler, which is a thin shell over a plain function → the store. A handler
// returns its error, and writeProblem alone turns errors into answers.
//
// The director looks up the event id, then the order's standing decision, then asks for credit, in a
// read transaction first and again inside the deciding one; only what the second look finds counts.
//
// # Invariants, and the tests that hold them
//
//   - One event is decided once, however many copies arrive at once: TestParallelCopies.
//   - An order is decided once, never both ways: TestAlreadyDecided.
//   - An event id that comes back with another order is refused, also while the first is in flight:
//     TestEventIDReused, TestEventIDReusedInFlight.
//   - Of a deciding transaction that runs more than once only the last run counts:
//     TestLastRunOfTheTransactionCounts.
//   - What was refused or not promised reserves neither its id nor its order: TestRefusedReservesNothing,
//     TestCreditFaultKeepsNothing.
//   - Credit that is not known is never taken for granted nor denied: TestCreditFaultKeepsNothing.
//   - Every error is application/problem+json and names nothing of the program: TestProblems, FuzzPostOrder.
//   - Refused bodies are kept, at most one a second, and keeping them never holds up an answer:
//     TestRefusedBodiesAreKept, TestKeeperNeverWaits.
package handlers
