// Package certificate holds the certificate and the key by which the server speaks TLS, and takes up new ones while it
// runs.
//
// Invariants, and the tests that hold them:
//
//   - a pair that does not fit, or can't be read, is refused at the start and changes nothing later: TestOpen, TestRotation
//   - a new pair is in force for the next connection, and those that stand are not touched: TestRotation
//   - whoever opens a connection and says nothing does not keep it: TestSlowHandshakes
package certificate
