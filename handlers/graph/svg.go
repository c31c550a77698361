package graph

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// SVGOptions says what else the picture shows. The zero value draws the graph alone.
type SVGOptions struct {
	Counts map[string]string   // node id, or edge id ("outbox-relay>issue-refund") → a short live figure drawn on it
	Links  map[string]string   // node id → href
	Words  func(string) string // translates what is written; nil keeps it
}

// SVG draws the graph as one self-contained element. Everything takes the colour of the text around it, and nothing
// in it needs a stylesheet or a script, so that it also stands in a page whose policy forbids both inside the markup.
// A page may style it by its classes: graph, node and its kind, edge and its kind, label, count, resource.
// With links the picture is a group to a screen reader, since what an img holds is hidden from it.
func (g Graph) SVG(o SVGOptions) string {
	if o.Words != nil {
		g = g.In(o.Words)
	}
	s := sheet{graph: g, opt: o, effects: g.effects()}
	s.measure()
	s.pieces()
	s.notes()
	return s.String()
}

// The measures of the picture, in pixels. It is drawn without a font at hand, so a character's width is a guess that
// is rather too wide.
const (
	charWide  = 7.6 // of 14 px in the middle weight
	textSize  = 14
	smallSize = 12
	lineStep  = 20
	pad       = 14
	edgeOfAll = 12
	nodeTall  = 56
	nodeStep  = 62 // between two boxes of the left column: the label of the edge stands there
	fanStep   = 20 // between two effects
	branch    = 56 // from the trunk to an effect: a count stands there
	headLong  = 9  // an arrow's head
)

// sheet is an SVG while it is drawn.
type sheet struct {
	graph   Graph
	opt     SVGOptions
	effects []Node
	b       strings.Builder

	leftWide, rightX, rightWide, wide, y float64
}

// measure lays the two columns out as Text does.
func (s *sheet) measure() {
	g := s.graph
	left := []Node{g.node(director), g.node(outbox), g.node(relay)}
	right := append([]Node{g.node(credit)}, s.effects...)
	s.leftWide, s.rightWide = s.boxWide(left), s.boxWide(right)
	gap := charWide*float64(max(width(g.label(director, credit)), width(g.label(relay, "")))) + branch + pad
	s.rightX = edgeOfAll + s.leftWide + gap
	s.wide = s.rightX + s.rightWide + edgeOfAll
}

func (s *sheet) boxWide(nodes []Node) float64 {
	wide := 0.0
	for _, n := range nodes {
		name := charWide * 1.1 * float64(width(s.graph.title(n)))
		if c := s.opt.Counts[n.ID]; c != "" {
			name += charWide*float64(width(c)) + 2*pad
		}
		wide = max(wide, name, charWide*float64(width(n.Does)))
	}
	return wide + 2*pad
}

// pieces draws the boxes and what leads from one to another.
func (s *sheet) pieces() {
	g := s.graph
	if len(g.nodes) == 0 {
		return
	}
	s.y = edgeOfAll
	middle := edgeOfAll + s.leftWide/2
	s.node(edgeOfAll, s.y, s.leftWide, g.node(director))
	s.node(s.rightX, s.y, s.rightWide, g.node(credit))
	s.across(director, []Node{g.node(credit)})
	for i, id := range []string{outbox, relay} {
		from := []string{director, outbox}[i]
		s.down(middle, s.y+nodeTall, from, id)
		s.y += nodeTall + nodeStep
		s.node(edgeOfAll, s.y, s.leftWide, g.node(id))
	}
	for i, e := range s.effects {
		s.node(s.rightX, s.y+float64(i)*(nodeTall+fanStep), s.rightWide, e)
	}
	s.across(relay, s.effects)
	s.y += max(nodeTall, float64(len(s.effects))*(nodeTall+fanStep)-fanStep) + 2*lineStep
}

// node draws a piece: a box, its name, what it does, and its count.
func (s *sheet) node(x, y, wide float64, n Node) {
	href := s.opt.Links[n.ID]
	if href != "" {
		fmt.Fprintf(&s.b, `<a href="%s">`, escapeXML(href))
	}
	fmt.Fprintf(&s.b, `<g class="node %s">`, escapeXML(n.Kind))
	stroke, round, base := "1.5", "6", y
	switch n.Kind {
	case "effect": // it changes the world
		stroke = "2.5"
	case "table": // the rail is its upper edge
		round, base = "0", y+3
	}
	fmt.Fprintf(&s.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" rx="%s" fill="none" stroke="currentColor" stroke-width="%s" pointer-events="all"/>`, x, y, wide, nodeTall, round, stroke)
	if n.Kind == "table" {
		s.line("rail", x, y+5, x+wide, y+5, "")
	}
	s.text("name", x+pad, base+25, textSize, `font-weight="600"`, s.graph.title(n))
	s.text("does", x+pad, base+44, smallSize, "", n.Does)
	if c := s.opt.Counts[n.ID]; c != "" {
		s.text("count", x+wide-pad, base+25, textSize, `text-anchor="end" font-weight="600"`, c)
	}
	s.b.WriteString("</g>")
	if href != "" {
		s.b.WriteString("</a>")
	}
	s.b.WriteString("\n")
}

// across leads from a box of the left column, level with s.y, to those of the right one, by one trunk.
func (s *sheet) across(from string, to []Node) {
	x, end, level := edgeOfAll+s.leftWide, s.rightX, s.y+nodeTall/2
	trunk := end - branch
	for i, n := range to {
		e := s.graph.edge(from, n.ID)
		y := level + float64(i)*(nodeTall+fanStep)
		s.open(e)
		if i == 0 {
			s.line("", x, y, end-headLong, y, e.Kind)
			s.text("label", x+pad, y-8, smallSize, "", e.Label)
		} else {
			fmt.Fprintf(&s.b, `<path d="M%.1f %.1fV%.1fH%.1f" fill="none" stroke="currentColor" stroke-width="1.5"/>`, trunk, y-nodeTall-fanStep, y, end-headLong)
		}
		fmt.Fprintf(&s.b, `<path class="head" d="M%.1f %.1fl-%d -5v10z" fill="currentColor"/>`, end, y, headLong)
		if c := s.opt.Counts[from+">"+n.ID]; c != "" {
			s.text("count", end-headLong-4, y-8, smallSize, `text-anchor="end" font-weight="600"`, c)
		}
		s.b.WriteString("</g>\n")
	}
}

// down leads from one box of the left column to the next.
func (s *sheet) down(x, y float64, from, to string) {
	e := s.graph.edge(from, to)
	s.open(e)
	s.line("", x, y, x, y+nodeStep-headLong, e.Kind)
	fmt.Fprintf(&s.b, `<path class="head" d="M%.1f %.1fl-5 -%dh10z" fill="currentColor"/>`, x, y+nodeStep, headLong)
	s.text("label", x+pad, y+nodeStep/2+4, smallSize, "", e.Label)
	if c := s.opt.Counts[from+">"+to]; c != "" {
		s.text("count", x-pad, y+nodeStep/2+4, smallSize, `text-anchor="end" font-weight="600"`, c)
	}
	s.b.WriteString("</g>\n")
}

func (s *sheet) open(e Edge) { fmt.Fprintf(&s.b, `<g class="edge %s">`, escapeXML(e.Kind)) }

// line draws a straight line; that of a write, which nobody waits for, is dashed.
func (s *sheet) line(class string, x1, y1, x2, y2 float64, kind string) {
	more := ""
	if class != "" {
		more = ` class="` + class + `"`
	}
	if kind == "write" {
		more += ` stroke-dasharray="6 4"`
	}
	fmt.Fprintf(&s.b, `<line%s x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="currentColor" stroke-width="1.5"/>`, more, x1, y1, x2, y2)
}

func (s *sheet) text(class string, x, y float64, size int, more, text string) {
	if more != "" {
		more = " " + more
	}
	fmt.Fprintf(&s.b, `<text class="%s" x="%.1f" y="%.1f" font-size="%d"%s fill="currentColor">%s</text>`, class, x, y, size, more, escapeXML(text))
}

// notes writes what stands below the drawing: the legend and the resources that pieces share.
func (s *sheet) notes() {
	g := s.graph
	for _, line := range append(strings.Split(g.word(legendMarks), "   "), g.word(legendHalves)) {
		s.paragraph("legend", edgeOfAll, smallSize, "", line)
	}
	s.y += lineStep / 2
	s.paragraph("heading", edgeOfAll, textSize, `font-weight="600"`, g.word(sharedHeading))
	s.y += 4
	for _, r := range g.resources {
		s.b.WriteString(`<g class="resource">`)
		top := s.y - textSize - 2
		s.paragraph("name", edgeOfAll+pad, smallSize, `font-weight="600"`, "⚠\ufe0e "+r.Name)
		s.paragraph("users", edgeOfAll+pad, smallSize, "", g.users(r))
		fmt.Fprintf(&s.b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="currentColor" stroke-width="2" stroke-dasharray="2 3"/></g>`+"\n", edgeOfAll+2, top, edgeOfAll+2, s.y-textSize-2)
		s.y += 6
	}
}

// paragraph writes text from s.y on, in lines that fit the picture.
func (s *sheet) paragraph(class string, x float64, size int, more, text string) {
	room := int((s.wide - x - edgeOfAll) / (charWide * float64(size) / textSize))
	line := ""
	put := func() {
		s.text(class, x, s.y, size, more, line)
		s.b.WriteString("\n")
		s.y += lineStep
	}
	for word := range strings.FieldsSeq(text) {
		if line != "" && width(line)+1+width(word) > room {
			put()
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	put()
}

func (s *sheet) String() string {
	role := "img"
	if len(s.opt.Links) > 0 {
		role = "group"
	}
	tall := s.y + edgeOfAll - lineStep
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="%s" aria-labelledby="graph-title graph-desc" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="system-ui, -apple-system, 'Segoe UI', sans-serif">`+
		"\n<title id=\"graph-title\">%s</title>\n<desc id=\"graph-desc\">%s</desc>\n%s</svg>\n",
		role, s.wide, tall, s.wide, tall, escapeXML(s.graph.word(graphTitle)), escapeXML(s.description()), s.b.String())
}

// description tells in words what the picture shows.
func (s *sheet) description() string {
	g := s.graph
	var all []string
	for _, n := range g.nodes {
		all = append(all, g.title(n)+": "+n.Does+s.counted(n.ID))
	}
	for _, e := range g.edges {
		all = append(all, e.From+" → "+e.To+": "+e.Label+s.counted(e.From+">"+e.To))
	}
	for _, r := range g.resources {
		all = append(all, r.Name+": "+g.users(r))
	}
	return strings.Join(all, ". ") + "."
}

func (s *sheet) counted(id string) string {
	if c := s.opt.Counts[id]; c != "" {
		return " (" + c + ")"
	}
	return ""
}

func (g Graph) edge(from, to string) Edge {
	i := slices.IndexFunc(g.edges, func(e Edge) bool { return e.From == from && e.To == to })
	if i < 0 {
		return Edge{From: from, To: to}
	}
	return g.edges[i]
}

// escapeXML makes a text fit for an element or an attribute; what XML can't hold becomes U+FFFD.
func escapeXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}
