package graph

import (
	"fmt"
	"strings"
)

// Mermaid returns the graph as a Mermaid flowchart.
func (g Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	ids := map[string]string{}
	for i, n := range g.nodes {
		ids[n.ID] = fmt.Sprintf("n%d", i)
		open, shut := "[", "]"
		if n.Kind == "table" {
			open, shut = "[(", ")]"
		}
		fmt.Fprintf(&b, "  %s%s\"%s<br/>%s\"%s\n", ids[n.ID], open, escape(g.title(n)), escape(n.Does), shut)
	}
	for _, e := range g.edges {
		arrow := "-->"
		if e.Kind == "write" {
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "  %s %s|\"%s\"| %s\n", ids[e.From], arrow, escape(e.Label), ids[e.To])
	}
	for i, r := range g.resources {
		name := r.Name
		if len(r.Also) > 0 {
			name += "<br/>" + g.word(wordAlso) + " " + strings.Join(r.Also, ", ")
		}
		fmt.Fprintf(&b, "  r%d{{\"⚠ %s\"}}\n", i, strings.ReplaceAll(escape(name), "#lt;br/#gt;", "<br/>"))
		for _, user := range r.UsedBy {
			fmt.Fprintf(&b, "  %s -.- r%d\n", ids[user], i)
		}
	}
	return b.String()
}

// escape keeps a text inside a quoted Mermaid label: there #NAME; is a character by its HTML name.
func escape(s string) string {
	return strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "\n", " ").Replace(s)
}
