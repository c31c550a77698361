package graph

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	refund    = Effect{Name: "issue-refund", TicketType: "issue_refund", LedgerType: "refund", KeyPrefix: "refund", Mark: "E", Does: "moves money", Resource: "payment gateway", SharedWith: "the original charge"}
	inventory = Effect{Name: "inventory-sync", TicketType: "inventory_sync", LedgerType: "inventory", KeyPrefix: "inventory", Mark: "E", Does: "changes stock", Resource: "warehouse"}
	letter    = Effect{Name: "send-letter", TicketType: "send_letter", LedgerType: "letter", KeyPrefix: "letter", Mark: "E", Does: "tells <who> & \"why\"", Resource: "warehouse", SharedWith: "the postman"}
)

func asJSON(t *testing.T, g Graph) string {
	t.Helper()
	raw, err := g.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestGolden(t *testing.T) {
	g := New([]Effect{refund, inventory})
	for name, got := range map[string]string{
		"two.txt": g.Text(), "two.mmd": g.Mermaid(), "two.json": asJSON(t, g), "two.svg": g.SVG(SVGOptions{}),
		"two-live.svg": g.SVG(live(t)), "two-es.txt": g.In(spanish(t)).Text(), "two-es.mmd": g.In(spanish(t)).Mermaid(),
		"three.txt": New([]Effect{refund, inventory, letter}).Text(), "one.txt": New([]Effect{refund}).Text(), "none.txt": New(nil).Text(),
	} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (go test -update writes it anew):\n%s", name, diff)
		}
	}
}

func TestAThirdEffectIsInAllFour(t *testing.T) {
	g := New([]Effect{refund, letter, inventory})
	for what, got := range map[string]string{"text": g.Text(), "mermaid": g.Mermaid(), "json": asJSON(t, g), "svg": g.SVG(SVGOptions{})} {
		for _, part := range []string{"issue-refund", "inventory-sync", "send-letter", "the postman", "the original charge"} {
			if !strings.Contains(got, part) {
				t.Errorf("the %s does not name %s", what, part)
			}
		}
	}
}

func TestTheOrderOfWiringChangesNothing(t *testing.T) {
	if a, b := New([]Effect{refund, inventory}), New([]Effect{inventory, refund}); a.Text() != b.Text() || a.Mermaid() != b.Mermaid() || asJSON(t, a) != asJSON(t, b) {
		t.Error("the same effects in another order make another drawing")
	}
}

// Every box has straight walls and every effect an arrow, however many there are.
func TestTextIsDrawnForAnyNumberOfEffects(t *testing.T) {
	widest := 0
	for n := range 12 {
		var effects []Effect
		for i := range n {
			effects = append(effects, Effect{Name: "effect-" + string(rune('a'+i)), Mark: "E", Does: "does it"})
		}
		text := New(effects).Text()
		if got := strings.Count(text, "▶"); got != n+1 {
			t.Errorf("%d effects: %d arrows to the right instead of %d:\n%s", n, got, n+1, text)
		}
		if got := strings.Count(text, "┌"); got != n+4 || strings.Count(text, "┘") != got {
			t.Errorf("%d effects: %d boxes instead of %d:\n%s", n, got, n+4, text)
		}
		for line := range strings.Lines(text) {
			if n == 1 {
				widest = max(widest, utf8.RuneCountInString(line))
			} else if n > 1 && utf8.RuneCountInString(line) > widest {
				t.Errorf("%d effects make the drawing wider: %s", n, line)
			}
		}
	}
}

func TestEffectsOfOneResourceMeetThere(t *testing.T) {
	for _, r := range New([]Effect{refund, letter, inventory}).Resources() {
		if r.Name == "warehouse" {
			if diff := cmp.Diff(Resource{Name: "warehouse", UsedBy: []string{"inventory-sync", "send-letter"}, Also: []string{"the postman"}}, r); diff != "" {
				t.Error(diff)
			}
			return
		}
	}
	t.Error("the warehouse is not among the resources")
}

func TestJSONDecodesAndItsEdgesLeadToNodes(t *testing.T) {
	var got struct {
		Nodes     []Node
		Edges     []Edge
		Resources []Resource
	}
	if err := json.Unmarshal([]byte(asJSON(t, New([]Effect{refund, letter}))), &got); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, n := range got.Nodes {
		known[n.ID] = true
	}
	for _, e := range got.Edges {
		if !known[e.From] || !known[e.To] {
			t.Errorf("the edge %+v leads nowhere", e)
		}
	}
	if len(got.Nodes) != 6 || len(got.Edges) != 5 || len(got.Resources) != 3 {
		t.Errorf("%d nodes, %d edges, %d resources", len(got.Nodes), len(got.Edges), len(got.Resources))
	}
	if empty := asJSON(t, Graph{}); empty != `{"nodes":[],"edges":[],"resources":[]}`+"\n" {
		t.Errorf("the zero graph is %s", empty)
	}
}

// No name can end a label or begin markup of its own.
func TestMermaidLabelsStayLabels(t *testing.T) {
	evil := Effect{Name: `a"] --> n0; click`, Does: "<script>#quot;", Resource: `b"}}`, SharedWith: "c\nd"}
	for line := range strings.Lines(New([]Effect{evil}).Mermaid()) {
		if quotes := strings.Count(line, `"`); quotes != 0 && quotes != 2 || strings.Contains(line, "<script") {
			t.Errorf("a label got out: %s", line)
		}
	}
}
