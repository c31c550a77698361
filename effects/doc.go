// Package effects holds what comanda can do to the world: one file an effect.
//
// An effect is handed the order, the payload and the key of one ticket and checks the payload. In the lab
// the world is a row in external_effects_log, which the settlement writes in one transaction with the
// ledger row that forbids a second one; so Carry itself touches nothing, and may be run again after a crash
// without harm. Where a target has an address, Target sends the letter there: once, and it tells what a send
// found out, not what follows from it (TestEvilGateway).
//
// Adding an effect is one file here, one line in main's map, and one test.
package effects
