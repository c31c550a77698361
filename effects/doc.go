// Package effects holds what comanda can do to the world: one file an effect.
//
// An effect is handed the order, the payload and the key of one ticket, checks the payload and acts.
// Here the world is the lab's: a row in external_effects_log, which the settlement writes in one
// transaction with the ledger row that forbids a second one. So Carry itself touches nothing, and
// may be run again after a crash without harm.
//
// Adding an effect is one file here, one line in main's map, and one test.
package effects
