// Package e2e is comanda seen from outside: the proofs, which start the built program as child
// processes, kill them for real and ask the file what is true; the crash points that they need; and
// the sample orders of the demo.
//
// `comanda prove` and `go test ./e2e` run the same proofs.
package e2e
