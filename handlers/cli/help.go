package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Help is the text that `comanda COMMAND --help` prints; without a command that of `comanda --help`.
func Help(command ...string) (string, error) {
	var g grammar
	k, _, err := parser(&g, nil)
	if err != nil {
		return "", err
	}
	n := k.Model.Node
	for _, name := range command {
		i := slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Name == name })
		if i < 0 {
			return "", fmt.Errorf("there is no command %q", strings.Join(command, " "))
		}
		n = n.Children[i]
	}
	return helpFor(n), nil
}

// Flag is one flag of one command, for whoever checks a document against the program.
type Flag struct {
	Command string // "tickets list"
	Name    string // "--limit"
	Twin    string // "COMANDA_LIMIT", or "" if it has none
	Default string // "100", or ""
	Help    string
}

// Flags lists every flag of every command, in the order of the help.
func Flags() ([]Flag, error) {
	var g grammar
	k, _, err := parser(&g, nil)
	if err != nil {
		return nil, err
	}
	var all []Flag
	for _, leaf := range k.Model.Leaves(true) {
		for _, f := range leaf.Flags {
			all = append(all, Flag{Command: commandName(leaf), Name: "--" + f.Name, Twin: twin(f), Default: f.Default, Help: f.Help})
		}
	}
	return all, nil
}

// Commands lists the names of the commands in the order of the help: "serve", "credit set".
func Commands() ([]string, error) {
	var g grammar
	k, _, err := parser(&g, nil)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, leaf := range k.Model.Leaves(true) {
		names = append(names, commandName(leaf))
	}
	return names, nil
}

const aboutComanda = `comanda takes an order by webhook, decides it, and writes what must happen as tickets into one SQLite file, in one transaction; the relay carries each ticket out once, whatever is killed, repeated or unplugged.`

const aboutEnvironment = `Each flag can be set by the variable named below it; the flag wins, and an empty variable is none. prove, demo, drill and world read no COMANDA_* variable but COMANDA_LANG. Exit codes: 0 fine, 1 failed, 2 wrong usage or setting.`

func helpFor(n *kong.Node) string {
	var b strings.Builder
	if n.Parent == nil {
		b.WriteString("Usage: comanda [COMMAND] [flags]\n\n" + wrap(aboutComanda, "", helpWidth) + "\nCommands:\n")
		writeCommands(&b, n)
		b.WriteString("\nFlags:\n")
		writeFlags(&b, n)
		b.WriteString("\n" + wrap(aboutEnvironment, "", helpWidth) + "\nRun `comanda COMMAND --help` for the flags of one command.\n")
		return b.String()
	}
	name := commandName(n)
	if !n.Leaf() {
		fmt.Fprintf(&b, "Usage: comanda %s COMMAND [flags]\n\n%s\nCommands:\n", name, wrap(n.Help, "", helpWidth))
		writeCommands(&b, n)
		return b.String()
	}
	fmt.Fprintf(&b, "Usage: comanda %s [flags]\n\n%s", usage(n), wrap(n.Help, "", helpWidth))
	if len(n.Positional) > 0 {
		b.WriteString("\nArguments:\n")
		for _, a := range n.Positional {
			twoColumns(&b, strings.ToUpper(a.Name), a.Help)
		}
	}
	b.WriteString("\nFlags:\n")
	writeFlags(&b, n)
	return b.String()
}

func commandName(n *kong.Node) string {
	if n.Parent == nil || n.Parent.Parent == nil {
		return n.Name
	}
	return commandName(n.Parent) + " " + n.Name
}

// usage is a command with its arguments: "credit get CUSTOMER [CURRENCY]".
func usage(n *kong.Node) string {
	text := commandName(n)
	for _, a := range n.Positional {
		arg := strings.ToUpper(strings.ReplaceAll(a.Name, "-", "_"))
		if a.IsSlice() {
			arg += "..."
		}
		if !a.Required {
			arg = "[" + arg + "]"
		}
		text += " " + arg
	}
	return text
}

func writeCommands(b *strings.Builder, n *kong.Node) {
	for _, leaf := range n.Leaves(true) {
		twoColumns(b, usage(leaf), leaf.Help)
	}
}

// flagEntry is a flag with the commands that take it.
type flagEntry struct {
	flag     *kong.Flag
	twin     string
	commands []string
}

// writeFlags lists the flags below n, first those of no group, then group by group.
func writeFlags(b *strings.Builder, n *kong.Node) {
	entries := flagsBelow(n)
	groups := []string{""}
	for _, e := range entries {
		if g := groupOf(e.flag); !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	for _, g := range groups {
		if g != "" {
			b.WriteString("\n" + g + ":\n")
		}
		for _, e := range entries {
			if groupOf(e.flag) == g {
				e.write(b, n.Parent == nil)
			}
		}
		if g == "" && n.Parent != nil {
			twoColumns(b, "-h, --help", "Show this help.")
		}
	}
}

func groupOf(f *kong.Flag) string {
	if f.Group == nil {
		return ""
	}
	return f.Group.Title
}

// flagsBelow collects the flags of n and of the commands below it, each name once, and apart where some commands read
// a twin of it and others none, or it is something else.
func flagsBelow(n *kong.Node) []*flagEntry {
	var entries []*flagEntry
	eachNode(n, func(n *kong.Node) {
		for _, f := range n.Flags {
			i := slices.IndexFunc(entries, func(e *flagEntry) bool {
				return e.flag.Name == f.Name && e.twin == twin(f) && e.flag.Default == f.Default && e.flag.Help == f.Help
			})
			if i < 0 {
				i = len(entries)
				entries = append(entries, &flagEntry{flag: f, twin: twin(f)})
			}
			if n.Parent != nil {
				entries[i].commands = append(entries[i].commands, commandName(n))
			}
		}
	})
	return entries
}

// write tells of one flag; withCommands says which commands take it.
func (e *flagEntry) write(b *strings.Builder, withCommands bool) {
	twoColumns(b, flagName(e.flag), e.flag.Help)
	var notes []string
	if e.twin != "" {
		notes = append(notes, e.twin)
	}
	if e.flag.HasDefault {
		notes = append(notes, "default "+e.flag.Default)
	}
	if withCommands && len(e.commands) > 0 {
		notes = append(notes, "for "+strings.Join(e.commands, ", "))
	}
	if len(notes) > 0 {
		twoColumns(b, "", strings.Join(notes, "; "))
	}
}

func flagName(f *kong.Flag) string {
	name := "--" + f.Name
	if f.Short != 0 {
		name = "-" + string(f.Short) + ", " + name
	}
	if f.PlaceHolder != "" {
		name += "=" + f.PlaceHolder
	}
	return name
}

func twin(f *kong.Flag) string {
	if len(f.Envs) == 0 || f.Envs[0] == "-" {
		return ""
	}
	return f.Envs[0]
}

const (
	helpWidth  = 100
	leftColumn = 26
)

// twoColumns writes a name and what it is; a name too long for its column has a line of its own.
func twoColumns(b *strings.Builder, left, right string) {
	indent := strings.Repeat(" ", leftColumn)
	text := wrap(right, indent, helpWidth)
	if len(left) > leftColumn-4 {
		b.WriteString("  " + left + "\n" + text)
		return
	}
	fmt.Fprintf(b, "  %-*s%s", leftColumn-2, left, strings.TrimPrefix(text, indent))
}

// wrap breaks text into lines of at most width bytes, each with the indent before it.
func wrap(text, indent string, width int) string {
	var b strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if line != indent && len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
	return b.String()
}
