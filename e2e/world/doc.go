// Package world is the lab's outside: a payment gateway and a warehouse over HTTP, with a file of their own. They
// honour Idempotency-Key (key → hash of the body → answer: the same again for the same body, 422 for another one,
// 409 while the first is under way), forget keys after a while, and go wrong on demand.
//
// It knows nothing of comanda's packages or file: what it did is told by its own external_effects_log.
package world
