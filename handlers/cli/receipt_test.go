package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"comanda/handlers/receipt"
)

// What is printed is the text and nothing else, on a terminal too: its hash is the one that --json answers.
func TestReceipt(t *testing.T) {
	b, _ := shop(t)
	answer := decode[receiptAnswer](t, b.must(t, "receipt", "ORD-1", "--json"))
	if answer.OrderID != "ORD-1" || answer.Verdict.Code != receipt.RefundedOnce || answer.Verdict.At == 0 || len(answer.SQL) == 0 {
		t.Errorf("receipt --json: %+v", answer)
	}
	for _, terminal := range []bool{false, true} {
		b.program.Terminal = terminal
		text := b.must(t, "receipt", "ORD-1")
		sum := sha256.Sum256([]byte(text))
		if hex.EncodeToString(sum[:]) != answer.SHA256 || text != strings.Join(answer.Lines, "\n")+"\n" {
			t.Errorf("terminal %t: what is printed is not what is hashed:\n%s", terminal, text)
		}
	}
	for _, query := range answer.SQL {
		b.must(t, "sql", query)
	}
	b.failed(t, exitFailed, "there is no order ORD-2 in ", "receipt", "ORD-2")
	b.failed(t, exitFailed, "there is no order ORD-2 in ", "receipt", "ORD-2", "--json")
	b.failed(t, exitUsage, "order-id", "receipt")
}
