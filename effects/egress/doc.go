// Package egress is the way out: every request that comanda makes by itself goes through its Transport, to a target,
// a lookup, a credit source or a place for alerts.
//
// Invariants, and the tests that hold them:
//
//   - what a name leads to is judged when the connection is made, by the address that it is made to: TestNamesThatLeadAstray
//   - an address that is never right is none in any spelling: TestJudge, TestSpellings
//   - this machine is reached only by who names it, and nothing else is reached by that name: TestThisMachine
//   - nothing in the environment puts a proxy in between: TestNoProxy
//   - no other place in the program makes connections: TestEveryWayOut in package e2e
package egress
