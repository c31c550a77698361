package console

import (
	"html/template"
	"net/http"
	"strconv"

	"comanda/handlers/graph"
	"comanda/store"
)

// graphSheet is the dependency graph with what is where now.
type graphSheet struct {
	Picture template.HTML
	Nodes   []graph.Node
	Edges   []graph.Edge
	Counts  map[string]string
}

func (c *Console) graph(v *visit) error {
	s := graphSheet{Nodes: c.opt.Graph.Nodes(), Edges: c.opt.Graph.Edges(), Counts: map[string]string{}}
	links := map[string]string{"order-triage": "/orders", "outbox": "/rail", "outbox-relay": "/relay"}
	err := v.view(func(tx *store.Tx) error {
		counts, err := tx.Counts()
		if err != nil {
			return err
		}
		s.Counts["outbox"] = v.lang.say("graph.waiting", "N", counts.Waiting())
		s.Counts["outbox-relay"] = v.lang.say("graph.in_hand", "N", counts.Processing)
		for _, node := range s.Nodes {
			if node.TicketType == "" {
				continue
			}
			of, err := tx.TicketCounts(store.TicketFilter{EffectType: node.TicketType})
			if err != nil {
				return err
			}
			links[node.ID] = "/rail?type=" + node.TicketType
			s.Counts[node.ID] = v.lang.say("graph.done", "N", of.Done)
			s.Counts["outbox-relay>"+node.ID] = strconv.FormatInt(of.Waiting(), 10)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.Picture = template.HTML(c.opt.Graph.SVG(graph.SVGOptions{Counts: s.Counts, Links: links, Words: v.lang.graph})) // it escapes what it is given
	return v.show(http.StatusOK, "graph", sheet{Live: true, Every: 30, Body: &s})
}
