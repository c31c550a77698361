package graph

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

// Effect is one effect of the program, as main wires it.
type Effect struct {
	Name       string // "issue-refund"
	TicketType string // effect_type of its tickets, "issue_refund"
	LedgerType string // effect_type in the ledger, "refund"
	KeyPrefix  string // first part of its idempotency keys, "refund"
	Mark       string // "E": it changes the world
	Does       string // "moves money"
	Resource   string // what of the outside world it works on, "payment gateway"
	SharedWith string // who else works on that, "the original charge"; "" is nobody
}

// Node is one piece of the program.
type Node struct {
	ID         string `json:"id"`
	Kind       string `json:"kind"`           // "director", "read", "table", "relay" or "effect"
	Mark       string `json:"mark,omitempty"` // "L" only reads, "E" changes the world
	Does       string `json:"does"`
	TicketType string `json:"ticket_type,omitempty"`
	LedgerType string `json:"ledger_type,omitempty"`
	KeyPrefix  string `json:"key_prefix,omitempty"`
}

// Edge says that From leads to To.
type Edge struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Kind  string `json:"kind"` // "sync": From waits for To; "write": it does not; "read"
	Label string `json:"label"`
}

// Resource is a hidden dependency: pieces that never call each other meet there.
type Resource struct {
	Name   string   `json:"name"`
	UsedBy []string `json:"used_by"`        // node ids
	Also   []string `json:"also,omitempty"` // who works on it from outside the program
}

// Graph is the dependency graph. New makes it.
type Graph struct {
	nodes     []Node
	edges     []Edge
	resources []Resource
	words     func(string) string // see In; nil keeps what is written beside the pieces
}

const (
	director = "order-triage"
	credit   = "check-credit"
	outbox   = "outbox"
	relay    = "outbox-relay"

	fileResource = "the database file (outbox, ledger)"
)

// New builds the graph of a program with these effects, in the order of their names.
func New(effects []Effect) Graph {
	effects = slices.Clone(effects)
	slices.SortFunc(effects, func(a, b Effect) int { return cmp.Compare(a.Name, b.Name) })
	g := Graph{
		nodes: []Node{
			{ID: director, Kind: "director", Does: "receives, deduplicates, decides"},
			{ID: credit, Kind: "read", Mark: "L", Does: "reads credit"},
			{ID: outbox, Kind: "table", Does: "tickets, oldest first"},
			{ID: relay, Kind: "relay", Does: "claims, carries out, settles"},
		},
		edges: []Edge{
			{From: director, To: credit, Kind: "sync", Label: "sync"},
			{From: director, To: outbox, Kind: "write", Label: "writes, does not wait"},
			{From: outbox, To: relay, Kind: "read", Label: "schedule and wake; read"},
		},
		resources: []Resource{{Name: fileResource, UsedBy: []string{director, credit, relay}}},
	}
	for _, e := range effects {
		g.nodes = append(g.nodes, Node{
			ID: e.Name, Kind: "effect", Mark: e.Mark, Does: e.Does,
			TicketType: e.TicketType, LedgerType: e.LedgerType, KeyPrefix: e.KeyPrefix,
		})
		g.edges = append(g.edges, Edge{From: relay, To: e.Name, Kind: "sync", Label: "sync, with Idempotency-Key"})
		g.resources[0].UsedBy = append(g.resources[0].UsedBy, e.Name)
	}
	for _, e := range effects {
		g.share(e)
	}
	return g
}

// share notes the effect's part of the outside world; effects that name the same one meet there.
func (g *Graph) share(e Effect) {
	if e.Resource == "" {
		return
	}
	i := slices.IndexFunc(g.resources, func(r Resource) bool { return r.Name == e.Resource })
	if i < 0 {
		i = len(g.resources)
		g.resources = append(g.resources, Resource{Name: e.Resource})
	}
	r := &g.resources[i]
	r.UsedBy = append(r.UsedBy, e.Name)
	if e.SharedWith != "" && !slices.Contains(r.Also, e.SharedWith) {
		r.Also = append(r.Also, e.SharedWith)
	}
}

// Nodes returns the pieces: the director first, the effects last, by name.
func (g Graph) Nodes() []Node { return slices.Clone(g.nodes) }

// Edges returns who leads to whom.
func (g Graph) Edges() []Edge { return slices.Clone(g.edges) }

// Resources returns what pieces share, the file first.
func (g Graph) Resources() []Resource { return slices.Clone(g.resources) }

// MarshalJSON writes {"nodes":[…],"edges":[…],"resources":[…]}.
func (g Graph) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(struct {
		Nodes     []Node     `json:"nodes"`
		Edges     []Edge     `json:"edges"`
		Resources []Resource `json:"resources"`
	}{notNil(g.nodes), notNil(g.edges), notNil(g.resources)})
	return b.Bytes(), err
}

func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// effects are the nodes that the relay calls.
func (g Graph) effects() []Node {
	var all []Node
	for _, n := range g.nodes {
		if n.Kind == "effect" {
			all = append(all, n)
		}
	}
	return all
}

func (g Graph) node(id string) Node {
	i := slices.IndexFunc(g.nodes, func(n Node) bool { return n.ID == id })
	if i < 0 {
		return Node{ID: id}
	}
	return g.nodes[i]
}

func (g Graph) label(from, to string) string {
	for _, e := range g.edges {
		if e.From == from && (e.To == to || to == "") {
			return e.Label
		}
	}
	return ""
}

// title is a node's name as it is drawn: "check-credit [L]", "outbox (table)".
func (g Graph) title(n Node) string {
	switch {
	case n.Mark != "":
		return n.ID + " [" + n.Mark + "]"
	case n.Kind == "table":
		return n.ID + " " + g.word(tableMark)
	}
	return n.ID
}
