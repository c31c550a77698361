package graph

import (
	"strings"
	"unicode/utf8"
)

// The drawing stands in two columns: on the left what an order walks through from top to bottom, on
// the right what is called on the way. Effects go below each other, so that the drawing is as wide
// with twenty of them as with one.
const (
	boxHeight = 4 // a frame, a name, what it does, a frame
	stepDown  = 2 // rows between two boxes of the left column: the edge's label and its arrow head
	margin    = 2
)

// Text draws the graph for a terminal with a fixed-width font.
func (g Graph) Text() string {
	if len(g.nodes) == 0 {
		return ""
	}
	effects := g.effects()
	left := []Node{g.node(director), g.node(outbox), g.node(relay)}
	right := append([]Node{g.node(credit)}, effects...)
	leftWidth, rightWidth := g.boxWidth(left), g.boxWidth(right)
	gap := max(width(g.label(director, credit)), width(g.label(relay, ""))) + 9
	rightX := margin + leftWidth + gap

	var c canvas
	y := 0
	c.box(margin, y, leftWidth, g.lines(left[0]))
	c.box(rightX, y, rightWidth, g.lines(right[0]))
	c.arrow(margin+leftWidth-1, rightX, y+1, g.label(director, credit))
	for i, n := range left[1:] {
		c.down(margin+leftWidth/2, y+boxHeight-1, g.label(left[i].ID, n.ID))
		y += boxHeight + stepDown
		c.box(margin, y, leftWidth, g.lines(n))
	}
	boxes := make([][]string, len(effects))
	for i, n := range effects {
		boxes[i] = g.lines(n)
	}
	c.fan(margin+leftWidth-1, rightX, y, rightWidth, boxes, g.label(relay, ""))
	return c.String() + "\n" + g.legend() + "\n" + g.resourceLines()
}

func (g Graph) legend() string {
	return "  " + g.word(legendMarks) + "\n  " + g.word(legendHalves) + "\n"
}

func (g Graph) resourceLines() string {
	var b strings.Builder
	b.WriteString(g.word(sharedHeading) + "\n")
	widest := 0
	for _, r := range g.resources {
		widest = max(widest, width(r.Name))
	}
	for _, r := range g.resources {
		b.WriteString("  ⚠ " + r.Name + strings.Repeat(" ", widest-width(r.Name)) + "  → " + g.users(r) + "\n")
	}
	return b.String()
}

// users names who depends on the resource; what everybody depends on needs no list.
func (g Graph) users(r Resource) string {
	text := strings.Join(r.UsedBy, ", ")
	if len(r.UsedBy) == len(g.nodes)-1 { // all but the outbox, which lies in the file
		text = g.word(everyPiece)
	}
	if len(r.Also) > 0 {
		text += " (" + g.word(wordAnd) + " " + strings.Join(r.Also, ", ") + ")"
	}
	return text
}

func (g Graph) boxWidth(nodes []Node) int {
	widest := 0
	for _, n := range nodes {
		widest = max(widest, width(g.title(n)), width(n.Does))
	}
	return widest + 4
}

// lines is what is written in a node's box.
func (g Graph) lines(n Node) []string { return []string{g.title(n), n.Does} }

// width counts characters; the names in a graph are of single-width ones.
func width(s string) int { return utf8.RuneCountInString(s) }

// canvas is a sheet of characters that grows as it is drawn on.
type canvas [][]rune

func (c *canvas) put(x, y int, text string) {
	for len(*c) <= y {
		*c = append(*c, nil)
	}
	row := (*c)[y]
	for _, r := range text {
		for len(row) <= x {
			row = append(row, ' ')
		}
		row[x] = r
		x++
	}
	(*c)[y] = row
}

func (c *canvas) box(x, y, w int, lines []string) {
	bar := strings.Repeat("─", w-2)
	c.put(x, y, "┌"+bar+"┐")
	for i, line := range lines {
		c.put(x, y+1+i, "│ "+line)
		c.put(x+w-1, y+1+i, "│")
	}
	c.put(x, y+boxHeight-1, "└"+bar+"┘")
}

// arrow goes from the right wall of a box at x to the box that begins at end.
func (c *canvas) arrow(x, end, y int, label string) {
	c.put(x, y, "├"+strings.Repeat("─", end-x-2)+"▶")
	c.put(x+3, y, " "+label+" ")
}

// down goes from the floor of a box to the next box below.
func (c *canvas) down(x, y int, label string) {
	c.put(x, y, "┬")
	c.put(x, y+1, "│  "+label)
	c.put(x, y+stepDown, "▼")
}

// fan goes from a box's right wall to each effect; the first stands level with the box.
func (c *canvas) fan(x, end, y, w int, boxes [][]string, label string) {
	trunk := end - 4
	for i, lines := range boxes {
		top := y + i*boxHeight
		c.box(end, top, w, lines)
		if i == 0 {
			c.arrow(x, end, top+1, label)
			continue
		}
		for row := top + 1 - boxHeight; row < top+1; row++ {
			joint := "│"
			if row == top+1-boxHeight {
				joint = "├"
				if i == 1 {
					joint = "┬"
				}
			}
			c.put(trunk, row, joint)
		}
		if i > 1 {
			c.put(trunk+1, top+1-boxHeight, "──▶")
		}
		c.put(trunk, top+1, "└──▶")
	}
}

func (c *canvas) String() string {
	var b strings.Builder
	for _, row := range *c {
		b.WriteString(strings.TrimRight(string(row), " "))
		b.WriteByte('\n')
	}
	return b.String()
}
