// Package graph draws the dependency graph of the program from its own wiring: which piece calls
// which, who waits for whom, and which resources several pieces share without a call between them.
//
// The pieces that every comanda has are named here; the effects are handed in by main from the same
// list that the relay works with, so a new effect is in the drawing without anybody drawing it
// (TestAThirdEffectIsInAllFour).
package graph
