package crashdisk

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Content is what a file holds.
type Content []byte

func (c Content) apply(op Op) Content {
	switch op.Kind {
	case Write:
		if need := int(op.Offset) + len(op.Data); need > len(c) {
			c = append(c, make([]byte, need-len(c))...)
		}
		copy(c[op.Offset:], op.Data)
	case Truncate:
		c = append(c, make([]byte, max(0, int(op.Offset)-len(c)))...)[:op.Offset]
	}
	return c
}

// Platter is a disk after a number of operations: what is surely on it, and what may be.
type Platter struct {
	safe    map[string]Content // content of the files whose names are surely there
	pending map[string][]write // not synced yet
	fresh   map[string]bool    // files whose name is not surely there
	gone    map[string]bool    // files whose name is not surely gone
	order   []string           // names, as they came
}

// write is a write or a truncate that is not synced yet.
type write struct {
	Op
	dropped bool // by a sync that failed: no later one puts it on the disk
}

// NewPlatter returns a disk that surely holds these files.
func NewPlatter(files map[string]Content) *Platter {
	p := &Platter{map[string]Content{}, map[string][]write{}, map[string]bool{}, map[string]bool{}, nil}
	for name, body := range files {
		p.safe[name] = body
		p.order = append(p.order, name)
	}
	return p
}

// Do carries out one operation.
func (p *Platter) Do(op Op) {
	switch op.Kind {
	case Create:
		if _, known := p.safe[op.File]; !known {
			p.order = append(p.order, op.File)
		}
		p.safe[op.File], p.fresh[op.File], p.gone[op.File] = Content{}, true, false
		p.pending[op.File] = nil
	case Write, Truncate:
		p.pending[op.File] = append(p.pending[op.File], write{Op: op})
	case Sync:
		for _, w := range p.pending[op.File] {
			if !w.dropped {
				p.safe[op.File] = p.safe[op.File].apply(w.Op)
			}
		}
		p.pending[op.File] = nil
	case SyncFailed:
		for i := range p.pending[op.File] {
			p.pending[op.File][i].dropped = true
		}
	case Delete:
		p.gone[op.File] = true
	case SyncDir:
		for name, gone := range p.gone {
			if gone {
				delete(p.safe, name)
				p.pending[name] = nil
			}
		}
		p.fresh, p.gone = map[string]bool{}, map[string]bool{}
	}
}

// A Cut says what a power cut leaves of what was not synced.
type Cut struct {
	Name string
	// keeps says for a pending write to a file whether it is there.
	keeps func(r *rand.Rand) func(file string) bool
	names func(r *rand.Rand) bool // whether a name that is not surely there is there
	torn  bool                    // keeps is asked for each sector instead of each write
}

func always(yes bool) func(*rand.Rand) bool { return func(*rand.Rand) bool { return yes } }
func coin(r *rand.Rand) bool                { return r.IntN(2) == 0 }

func everyFile(keep func(*rand.Rand) bool) func(*rand.Rand) func(string) bool {
	return func(r *rand.Rand) func(string) bool { return func(string) bool { return keep(r) } }
}

// Everything is the cut that loses nothing: what a killed process leaves in the page cache.
var Everything = Cut{"everything is there", everyFile(always(true)), always(true), false}

// Cuts are the ways in which the power may go.
var Cuts = []Cut{
	{"nothing unsynced is there", everyFile(always(false)), always(false), false},
	Everything,
	{"some sectors are there", everyFile(coin), always(true), true},
	{"one file's writes are there and another's not", bySide, always(true), false},
	{"names are undone", everyFile(coin), coin, true},
}

// bySide keeps all that was written to a file or nothing of it: the disk has reordered writes across files.
func bySide(r *rand.Rand) func(string) bool {
	side := map[string]bool{}
	return func(file string) bool {
		if _, known := side[file]; !known {
			side[file] = coin(r)
		}
		return side[file]
	}
}

// sector is what a disk writes whole, in bytes.
const sector = 512

// Image is what is on the disk after the cut, file by file.
func (p *Platter) Image(c Cut, r *rand.Rand) map[string]Content {
	left := map[string]Content{}
	keeps := c.keeps(r)
	for _, name := range p.order {
		safe, there := p.safe[name]
		if !there || p.fresh[name] && !c.names(r) || p.gone[name] && c.names(r) {
			continue
		}
		body := append(Content{}, safe...)
		for _, w := range p.pending[name] {
			body = body.applySome(w.Op, c.torn, func() bool { return keeps(name) })
		}
		left[name] = body
	}
	return left
}

// Fingerprint tells images apart after which so many promises are to be kept: none needs to be looked at twice.
func Fingerprint(image map[string]Content, promises int) (id [32]byte) {
	h := sha256.New()
	fmt.Fprintln(h, promises)
	for _, name := range slices.Sorted(maps.Keys(image)) {
		fmt.Fprintln(h, name, len(image[name]))
		h.Write(image[name])
	}
	h.Sum(id[:0])
	return id
}

func (c Content) applySome(op Op, torn bool, keep func() bool) Content {
	if !torn || op.Kind == Truncate {
		if keep() {
			return c.apply(op)
		}
		return c
	}
	for from := 0; from < len(op.Data); {
		to := min(len(op.Data), from+sector-int((op.Offset+int64(from))%sector))
		if keep() {
			c = c.apply(Op{Kind: Write, Offset: op.Offset + int64(from), Data: op.Data[from:to]})
		}
		from = to
	}
	return c
}
