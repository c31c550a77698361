package world

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Fault is one way to go wrong, and how many requests it strikes.
type Fault struct {
	Target string // "refund", "inventory", "release", "lookup", "credit" or "all"
	Kind   string
	Left   int // -1 strikes for ever
}

// String is the fault as it is written: "refund:hang:2".
func (f Fault) String() string {
	if f.Left < 0 {
		return f.Target + ":" + f.Kind + ":*"
	}
	return fmt.Sprintf("%s:%s:%d", f.Target, f.Kind, f.Left)
}

var targets = []string{"refund", "inventory", "release", "lookup", "credit", "all"}

// performs tells for each fault whether the effect is carried out all the same.
var performs = map[string]bool{
	"500": false, "perform-then-500": true, "hang": false, "perform-then-hang": true, "reset": false, "perform-then-reset": true,
	"drip": true, "endless": true, "redirect": false, "redirect-307": false, "captive": false, "429": false, "425": false,
	"wrong-json": true, "not-json": true, "says-failed": false, "401": false, "403": false, "404": false, "405": false,
	"400": false, "408": false, "409": false, "422": false, "amnesia": true, "ignore-key": true,
}

// Kinds lists the faults that there are, sorted.
func Kinds() []string {
	kinds := make([]string, 0, len(performs))
	for kind := range performs {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

// ParseFault reads TARGET:FAULT[:N]; N is 1 when it is not given, and * is for ever.
func ParseFault(s string) (Fault, error) {
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return Fault{}, fmt.Errorf("fault %q is not TARGET:FAULT[:N], such as refund:perform-then-500:2", s)
	}
	f := Fault{Target: parts[0], Kind: parts[1], Left: 1}
	if !slices.Contains(targets, f.Target) {
		return f, fmt.Errorf("fault %q is for no target: take one of %s", s, strings.Join(targets, ", "))
	}
	if _, known := performs[f.Kind]; !known {
		return f, fmt.Errorf("there is no fault %q: take one of %s", f.Kind, strings.Join(Kinds(), ", "))
	}
	if len(parts) == 3 && parts[2] == "*" {
		f.Left = -1
	} else if len(parts) == 3 {
		n, err := strconv.Atoi(parts[2])
		if err != nil || n < 1 {
			return f, fmt.Errorf("fault %q must strike a number of times from 1 on, or *", s)
		}
		f.Left = n
	}
	return f, nil
}

// plan is what will go wrong. It is safe for concurrent use.
type plan struct {
	mu     sync.Mutex
	faults []Fault
}

func (p *plan) set(texts []string) error {
	faults := []Fault{}
	for _, s := range texts {
		f, err := ParseFault(s)
		if err != nil {
			return err
		}
		faults = append(faults, f)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = faults
	return nil
}

func (p *plan) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []string{}
	for _, f := range p.faults {
		if f.Left != 0 {
			all = append(all, f.String())
		}
	}
	return all
}

// strike uses up the first fault for the target; "" means that all goes well.
func (p *plan) strike(target string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range p.faults {
		if f.Left == 0 || f.Target != target && f.Target != "all" {
			continue
		}
		if f.Left > 0 {
			p.faults[i].Left--
		}
		return f.Kind
	}
	return ""
}
