// Package door says who may come in: which door each address stands behind, and whom it lets through.
//
// Invariants, and the tests that hold them:
//
//   - every route names its door, and no other spelling of its path or method leads round it: TestEveryRouteAtItsDoor
//     in package handlers
//   - without a key only this machine comes in, under its own names and through nobody: TestExempt, and TestOnlyThisMachine
//     in package console
//   - a try to log in is charged before anything is hashed, and no more than two passwords are hashed at the same time:
//     TestBruteForce, TestTwoHashesAtOnce
//   - each login has a key of its own, whatever the browser brought along: TestNoFixation in package console
package door
