package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"comanda/store"
)

// Step is one thing that a proof did or asked. A step with neither SQL nor Want only tells.
type Step struct {
	Text   string `json:"text,omitempty"`
	SQL    string `json:"sql,omitempty"`
	Answer string `json:"answer,omitempty"`
	Want   string `json:"want,omitempty"`
	OK     bool   `json:"ok"`

	silent bool // part of a table: printed only when it is not as it should be
	row    bool // a row of a table: text and answer on one line
}

// isCheck tells a step that can fail from one that only tells or shows.
func (s Step) isCheck() bool { return s.Want != "" || !s.OK }

// proof is one proof while it runs: its file, its child processes, and what it has found out.
type proof struct {
	words
	exe     string
	mutant  string
	without string
	dir     string
	file    string
	out     io.Writer
	client  *client

	appliance Appliance // nil outside of the program

	steps    []Step
	tolls    []Toll
	children []*child
	db       *store.DB // open while it is being looked at
}

func newProof(c Config, e entry, dir string) *proof {
	p := &proof{words: c.words, exe: c.Exe, mutant: c.Mutant, without: c.without, dir: dir, file: filepath.Join(dir, e.name+".db"), out: io.Discard, client: newClient(), appliance: c.Appliance}
	if !c.JSON && c.Stdout != nil {
		p.out = c.Stdout
	}
	return p
}

func (p *proof) add(s Step) {
	p.steps = append(p.steps, s)
	if !s.silent || !s.OK {
		s.print(p.out, p.words)
	}
}

// say tells what happens next.
func (p *proof) say(id message, filled ...any) {
	p.add(Step{Text: p.text(id, filled...), OK: true})
}

// expect compares an answer that is not a query's.
func (p *proof) expect(text, got, want string) {
	p.add(Step{Text: text, Answer: got, Want: want, OK: got == want})
}

// ask runs one query on the live file and compares its answer: columns joined by " | ", rows by
// newlines, "no row" where there is none.
func (p *proof) ask(ctx context.Context, query, want string) string {
	return p.askAs(ctx, Step{SQL: query, Want: want})
}

// show runs one query and shows its answer, whatever that is, for a later one to be compared with.
func (p *proof) show(ctx context.Context, query string) string {
	answer, err := p.query(ctx, query)
	if err != nil {
		answer = "error: " + err.Error()
	}
	p.add(Step{SQL: query, Answer: answer, OK: err == nil})
	return answer
}

// note is ask for a cell of a table: it is printed only when it is wrong.
func (p *proof) note(ctx context.Context, text, query, want string) string {
	return p.askAs(ctx, Step{Text: text, SQL: query, Want: want, silent: true})
}

func (p *proof) askAs(ctx context.Context, s Step) string {
	answer, err := p.query(ctx, s.SQL)
	if err != nil {
		answer = "error: " + err.Error()
	}
	s.Answer, s.OK = answer, answer == s.Want
	p.add(s)
	return answer
}

// fault notes that the proof could not be carried through.
func (p *proof) fault(err error) {
	p.add(Step{Text: p.text("proof.fault", "Error", err.Error())})
}

func (p *proof) ok() bool {
	return len(p.steps) > 0 && !slices.ContainsFunc(p.steps, func(s Step) bool { return !s.OK })
}

func (p *proof) checks() int {
	n := 0
	for _, s := range p.steps {
		if s.isCheck() {
			n++
		}
	}
	return n
}

// look opens the file for reading. It is closed again before another child starts, so that after a
// kill the next process finds the file as the killed one left it.
func (p *proof) look(ctx context.Context) (*store.DB, error) {
	if p.db != nil {
		return p.db, nil
	}
	db, err := store.Open(ctx, p.file, store.Options{MustExist: true, Readers: 1, ReadFor: examineFor})
	if err != nil {
		return nil, err
	}
	p.db = db
	return db, nil
}

func (p *proof) lookAway() error {
	if p.db == nil {
		return nil
	}
	db := p.db
	p.db = nil
	return db.Close()
}

func (p *proof) query(ctx context.Context, text string) (string, error) {
	db, err := p.look(ctx)
	if err != nil {
		return "", err
	}
	a, err := db.Query(ctx, text)
	if err != nil {
		return "", err
	}
	return rowsText(a.Rows), nil
}

func rowsText(rows [][]any) string {
	if len(rows) == 0 {
		return noRow
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		cells := make([]string, len(row))
		for j, v := range row {
			cells[j] = fmt.Sprint(v)
			if b, ok := v.([]byte); ok {
				cells[j] = string(b)
			}
		}
		lines[i] = strings.Join(cells, " | ")
	}
	return strings.Join(lines, "\n")
}

const noRow = "no row"

// patience is how long a proof waits for something that takes a moment when all is well.
const patience = 60 * time.Second

// until asks again and again until the answer is the wanted one.
func (p *proof) until(ctx context.Context, query, want string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	last := ""
	for {
		answer, err := p.query(ctx, query)
		if err == nil && answer == want {
			return nil
		}
		if err == nil {
			last = answer
		}
		for _, c := range p.children {
			if err := c.unexpected(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s to answer %s; last it was %s", query, want, last)
		case <-ticker.C:
		}
	}
}

// Whatever waits is in one of the partial indexes of the states that wait, so asking is cheap.
const sqlWaiting = `SELECT EXISTS (SELECT 1 FROM outbox WHERE status = 'pending') + EXISTS (SELECT 1 FROM outbox WHERE status = 'processing')`

func (p *proof) untilDrained(ctx context.Context) error { return p.until(ctx, sqlWaiting, "0") }

// The lesson's measure of a drained rail.
const sqlNotDone = `SELECT count(*) FROM outbox WHERE status <> 'done';`

// invariants asks what must never have a row, whatever happened (contract, section 6).
func (p *proof) invariants(ctx context.Context) {
	p.say("proof.invariants")
	for _, query := range store.Invariants() {
		p.ask(ctx, query, noRow)
	}
}

// end stops what still runs, closes the file and says whether it was drained.
func (p *proof) end(ctx context.Context) (drained bool) {
	for _, c := range p.children {
		c.kill()
	}
	for _, c := range p.children {
		<-c.gone
	}
	p.client.close()
	if _, err := os.Stat(p.file); err != nil {
		return false
	}
	left, err := p.query(context.WithoutCancel(ctx), sqlNotDone)
	if err == nil {
		err = p.lookAway()
	}
	if err != nil {
		p.fault(err)
	}
	return left == "0"
}
