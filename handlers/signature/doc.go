// Package signature checks who sent a webhook, as Standard Webhooks has it
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md): the sender signs
// "ID.TIMESTAMP.BODY" with HMAC-SHA256 under a secret that both know, and sends the three headers webhook-id,
// webhook-timestamp (Unix seconds) and webhook-signature ("v1,BASE64", several with spaces between).
//
// The project's own Go library would do but for two things: it reads time.Now, where we may have to leave the age out,
// and it copies the body twice for each secret, of which the server may hold many of a megabyte. FuzzVerify holds
// both against each other.
//
// # Invariants, and the tests that hold them
//
//   - What is signed are the bytes that came, whatever they say: TestRawBytes.
//   - A signature fits one id, one time and one body, and only one of the secrets that are given: TestVerify.
//   - The same work is done whatever is wrong: TestSameWork.
//   - A file of secrets that can't be read again leaves the old ones in force: TestReread.
//   - No secret stands in an error: TestSecretsAreNotTold.
package signature
