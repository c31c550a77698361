package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// printedReceipt is what comanda receipt --json says of an order.
type printedReceipt struct {
	SHA256  string
	Lines   []string
	Verdict struct {
		Code string
		N    int
	}
}

func receiptOf(t *testing.T, p *proof, order string) (r printedReceipt) {
	t.Helper()
	cmd := exec.Command(p.exe, "receipt", order, "--json", "--db", p.file)
	cmd.Env = scrubbed()
	if err := json.Unmarshal(must(cmd.Output())(t), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// What the built program prints has the hash that it names, by another program's reckoning, while the server runs,
// after a restart, and whatever came meanwhile.
func TestReceiptHash(t *testing.T) {
	sha256sum, err := exec.LookPath("sha256sum")
	if err != nil {
		t.Skip("no sha256sum here")
	}
	p := onFile(t, builtProgram(t))
	hash := func() string {
		t.Helper()
		print := exec.Command(p.exe, "receipt", "ORD-1", "--db", p.file)
		print.Env = scrubbed()
		sum := exec.Command(sha256sum)
		sum.Stdin = must(print.StdoutPipe())(t)
		if err := print.Start(); err != nil {
			t.Fatal(err)
		}
		out := must(sum.Output())(t)
		if err := print.Wait(); err != nil {
			t.Fatal(err)
		}
		answer := receiptOf(t, p, "ORD-1")
		if got, _, _ := strings.Cut(string(out), " "); got != answer.SHA256 || len(got) != 64 {
			t.Errorf("sha256sum says %s, --json says %s", got, answer.SHA256)
		}
		return answer.Verdict.Code + " " + answer.SHA256
	}

	s := must(p.serve("", "--no-relay"))(t)
	must(p.client.order(t.Context(), s.url, orderBody("EVT-1", "ORD-1", "CUS-7", "2154.00", line{"CF-ARA-500", 12})))(t)
	if before := hash(); !strings.HasPrefix(before, "in_progress ") {
		t.Errorf("before it is carried out: %s", before)
	}
	must(p.client.do(t.Context(), "POST", s.url+"/api/relay/run", ""))(t)
	done := hash()
	if !strings.HasPrefix(done, "refunded_once ") {
		t.Errorf("carried out: %s", done)
	}
	must(p.client.order(t.Context(), s.url, orderBody("EVT-1", "ORD-1", "CUS-7", "2154.00", line{"CF-ARA-500", 12})))(t)
	must(p.client.order(t.Context(), s.url, orderBody("EVT-2", "ORD-2", "CUS-7", "1.00", line{"CF-ARA-500", 1})))(t)
	must(p.client.do(t.Context(), "POST", s.url+"/api/relay/run", ""))(t)
	if after := hash(); after != done {
		t.Errorf("after a duplicate and another order: %s instead of %s", after, done)
	}
	if err := p.endAll(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	must(p.serve("", "--no-relay"))(t)
	if after := hash(); after != done {
		t.Errorf("after a restart: %s instead of %s", after, done)
	}
}
