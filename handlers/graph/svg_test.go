package graph

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// live is a picture with everything on it: figures, links, other words.
func live(t *testing.T) SVGOptions {
	return SVGOptions{
		Counts: map[string]string{"outbox": "12", "outbox-relay>issue-refund": "3", "outbox-relay>inventory-sync": "1,204", "order-triage>outbox": "7", "order-triage>check-credit": "9", "check-credit": "2 ms"},
		Links:  map[string]string{"outbox": "/tickets?a=1&b=2"},
		Words:  spanish(t),
	}
}

func spanish(t *testing.T) func(string) string {
	t.Helper()
	words, err := Words("es")
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// elements reads a document to its end and fails where it is not well formed.
func elements(t *testing.T, doc string) (all []xml.StartElement, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(doc))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all, text
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		switch token := token.(type) {
		case xml.StartElement:
			all = append(all, token.Copy())
		case xml.CharData:
			text += string(token)
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	i := slices.IndexFunc(e.Attr, func(a xml.Attr) bool { return a.Name.Local == name })
	if i < 0 {
		return ""
	}
	return e.Attr[i].Value
}

// Whatever stands in the graph, the picture is well-formed XML, and nothing in it needs what a page's policy forbids.
func TestSVGIsWellFormed(t *testing.T) {
	evil := Effect{Name: `a"></svg><script>`, Mark: "E", Does: `<&'"` + "\x00\xff", Resource: "]]>", SharedWith: "<!--"}
	options := SVGOptions{Counts: map[string]string{evil.Name: `"<b>`, relay + ">" + evil.Name: "&"}, Links: map[string]string{evil.Name: `"onclick="x`}}
	for _, doc := range []string{
		Graph{}.SVG(SVGOptions{}), New(nil).SVG(SVGOptions{}), New([]Effect{refund, inventory, letter}).SVG(live(t)), New([]Effect{evil}).SVG(options),
	} {
		all, _ := elements(t, doc)
		for _, e := range all {
			if slices.Contains([]string{"script", "style", "foreignObject", "image", "use"}, e.Name.Local) {
				t.Errorf("there is a <%s> in it", e.Name.Local)
			}
			for _, a := range e.Attr {
				if a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") {
					t.Errorf("<%s> has %s=%q", e.Name.Local, a.Name.Local, a.Value)
				}
				if (a.Name.Local == "fill" || a.Name.Local == "stroke") && a.Value != "none" && a.Value != "currentColor" {
					t.Errorf("<%s> has a colour of its own: %s", e.Name.Local, a.Value)
				}
			}
		}
		if root := all[0]; root.Name.Local != "svg" || attribute(root, "role") == "" || attribute(root, "viewBox") == "" {
			t.Errorf("it begins with %+v", root)
		}
	}
}

// What is drawn stays in the picture, however many effects there are, and every piece has its box.
func TestSVGHoldsWhatIsDrawn(t *testing.T) {
	for n := range 12 {
		var effects []Effect
		for i := range n {
			effects = append(effects, Effect{Name: "effect-" + string(rune('a'+i)), Mark: "E", Does: "does it", Resource: "the world"})
		}
		all, _ := elements(t, New(effects).SVG(SVGOptions{}))
		wide, tall := number(t, attribute(all[0], "width")), number(t, attribute(all[0], "height"))
		boxes, heads := 0, 0
		for _, e := range all {
			if e.Name.Local == "rect" {
				boxes++
				if x := number(t, attribute(e, "x")) + number(t, attribute(e, "width")); x > wide {
					t.Errorf("%d effects: a box ends at %v of %v", n, x, wide)
				}
			}
			if attribute(e, "class") == "head" {
				heads++
			}
			if y := attribute(e, "y"); y != "" && number(t, y) > tall {
				t.Errorf("%d effects: something stands at %s of %v", n, y, tall)
			}
		}
		if boxes != n+4 || heads != n+3 {
			t.Errorf("%d effects: %d boxes, %d arrows", n, boxes, heads)
		}
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Error(err)
	}
	return n
}

func TestSVGShowsCountsAndLinks(t *testing.T) {
	plain, with := New([]Effect{refund, inventory}).SVG(SVGOptions{}), New([]Effect{refund, inventory}).SVG(live(t))
	if strings.Contains(plain, "<a ") || !strings.Contains(plain, `role="img"`) || strings.Contains(plain, `class="count"`) {
		t.Error("the plain picture is not plain")
	}
	_, text := elements(t, with)
	for _, part := range []string{"1,204", "2 ms", "mueve dinero", "outbox (tabla)"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not on it", part)
		}
	}
	if !strings.Contains(with, `<a href="/tickets?a=1&amp;b=2"><g class="node table">`) || !strings.Contains(with, `role="group"`) {
		t.Error("the outbox leads nowhere")
	}
}
