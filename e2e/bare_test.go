package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"comanda/handlers/order"
	"comanda/store"
)

// bareVar makes of this test binary a server that keeps nothing: what is left of taking an order is what any server of
// the kind pays.
const bareVar = "COMANDA_TEST_BARE"

// serveBare decodes each order and answers as if it had been kept, until its stdin ends.
func serveBare() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	e := echo.New()
	e.POST("/webhooks/orders", answerBare)
	go func() { _ = http.Serve(listener, e) }() //nolint:gosec // of a benchmark, for this machine alone
	fmt.Println(listener.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func answerBare(c echo.Context) error {
	body, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return err
	}
	o, err := order.Decode(body)
	if err != nil {
		return err
	}
	keys := make([]string, len(o.Lines))
	for i, l := range o.Lines {
		keys[i] = store.Key(store.LedgerInventory, o.OrderID, l.SKU)
	}
	var b bytes.Buffer
	err = json.NewEncoder(&b).Encode(map[string]any{"status": "accepted", "event_id": o.EventID, "order_id": o.OrderID,
		"credit_ok": true, "decision": "inventory", "tickets": keys})
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "application/json", b.Bytes())
}

// bareServer starts one and returns where it listens.
func bareServer(b *testing.B) (addr string) {
	b.Helper()
	cmd := exec.Command(must(os.Executable())(b))
	cmd.Env = append(scrubbed(), bareVar+"=1")
	in, out := must(cmd.StdinPipe())(b), must(cmd.StdoutPipe())(b)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return strings.TrimSpace(must(bufio.NewReader(out).ReadString('\n'))(b))
}
