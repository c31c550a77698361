package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Run prints the manual page, made from the grammar. Its source is the same for the same program.
func (c *manCmd) Run(s *session) error {
	k, _, err := parser(&grammar{}, nil)
	if err != nil {
		return err
	}
	s.printf("%s", manPage(k.Model.Node, s.program.Version))
	return nil
}

const manExamples = `.SH EXAMPLES
.TP
.B comanda
Take orders on 127.0.0.1:8080 and carry them out, in the file comanda.db here.
.TP
.B comanda order show ORD\-2041
The story of an order.
.TP
.B comanda health \-\-wait 30s
Wait until the running server is ready.
.TP
.B comanda watch \-\-json
Follow what happens, one JSON object a line.
.TP
.B comanda tickets list \-\-status review
What waits for a person.
`

const manFiles = `.SH FILES
.TP
.I comanda.db
The file, unless
.B \-\-db
names another one.
.TP
.IR comanda.db\-wal ", " comanda.db\-shm
SQLite's own, for as long as a comanda runs. They belong to the file: never copy, move or remove them apart from it.
.TP
.I .relay\-*.lock
In the file's directory: one for each relay that lives.
.TP
.I .ballast
In the file's directory, with the file's name before it: room for a full disk.
`

func manPage(root *kong.Node, v Version) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH COMANDA 1 \"\" \"comanda %s\" \"User Commands\"\n", roff(v.Version))
	b.WriteString(".nh\n.ad l\n.SH NAME\ncomanda \\- an outbox for a shop: orders in, their effects out\n")
	b.WriteString(".SH SYNOPSIS\n.B comanda\n.RI [ COMMAND ]\n.RI [ flags ]\n")
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n.SH COMMANDS\n", roff(aboutComanda))
	for _, leaf := range root.Leaves(true) {
		manCommand(&b, leaf)
	}
	fmt.Fprintf(&b, ".SH ENVIRONMENT\n%s\n", roff(aboutEnvironment))
	b.WriteString(".SH EXIT STATUS\n.TP\n.B 0\nFine.\n.TP\n.B 1\nFailed; for health: not ready.\n.TP\n.B 2\nWrong usage or a wrong setting.\n")
	b.WriteString(manFiles + manExamples)
	return b.String()
}

func manCommand(b *strings.Builder, n *kong.Node) {
	fmt.Fprintf(b, ".SS %s\n%s\n", roff("comanda "+usage(n)), roff(n.Help))
	for _, a := range n.Positional {
		fmt.Fprintf(b, ".TP\n.I %s\n%s\n", roff(strings.ToUpper(a.Name)), roff(a.Help))
	}
	for _, f := range n.Flags {
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(flagName(f)), roff(f.Help))
		if f.HasDefault {
			fmt.Fprintf(b, "Default: %s.\n", roff(f.Default))
		}
		if env := twin(f); env != "" {
			fmt.Fprintf(b, "Environment: %s.\n", roff(env))
		}
	}
	b.WriteString(".TP\n.B \\-h, \\-\\-help\nShow this help.\n")
}

// roff spells text so that the typesetter shows it as it is: no escape of its own, no minus made a hyphen, and no line
// taken for a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "\n", " ", "…", "...").Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
