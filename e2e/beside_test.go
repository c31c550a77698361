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

// besideVar makes of this test binary one of the servers that stand beside comanda in a benchmark.
const besideVar = "COMANDA_TEST_BESIDE"

// besides are these servers: one that takes orders and keeps nothing, since what is left of taking an order is what any
// server of the kind pays, and the gateway that refunds go to.
func besides() map[string]http.Handler {
	e := echo.New()
	e.POST("/webhooks/orders", answerBare)
	return map[string]http.Handler{"bare": e, "gateway": http.HandlerFunc(answerGateway)}
}

// serveBeside serves until its stdin ends.
func serveBeside(name string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(listener, besides()[name]) }() //nolint:gosec // of a benchmark, for this machine alone
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

// beside starts one of these servers and returns where it listens.
func beside(b *testing.B, name string) (addr string) {
	b.Helper()
	cmd := exec.Command(must(os.Executable())(b))
	cmd.Env = append(scrubbed(), besideVar+"="+name)
	in, out := must(cmd.StdinPipe())(b), must(cmd.StdoutPipe())(b)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return strings.TrimSpace(must(bufio.NewReader(out).ReadString('\n'))(b))
}
