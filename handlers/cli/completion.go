package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Run prints the script by which a shell completes commands, flags and the values that there are to choose from. It
// is made from the grammar, and the shell needs no running comanda for it.
func (c *completionCmd) Run(s *session) error {
	k, _, err := parser(&grammar{}, nil)
	if err != nil {
		return err
	}
	script := map[string]func(*strings.Builder, []stop){"bash": bash, "zsh": zsh, "fish": fish}[c.Shell]
	var b strings.Builder
	script(&b, stops(k.Model.Node))
	s.printf("%s", b.String())
	return nil
}

// stop is a place that a command line can have come to: what may follow there.
type stop struct {
	path     string // "", "credit", "credit set"
	children []*kong.Node
	flags    []*kong.Flag
	values   []string // of the argument, where there are some to choose from
}

func stops(root *kong.Node) (all []stop) {
	eachNode(root, func(n *kong.Node) {
		one := stop{children: n.Children, flags: n.Flags}
		if n.Parent != nil {
			one.path = commandName(n)
		} else if n.DefaultCmd != nil {
			one.flags = n.DefaultCmd.Flags
		}
		for _, a := range n.Positional {
			one.values = append(one.values, choices(a)...)
		}
		all = append(all, one)
	})
	return all
}

func choices(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return strings.Split(v.Enum, ",")
}

// isPath tells the flags whose value is a file or a directory.
func isPath(f *kong.Flag) bool { return f.PlaceHolder == "FILE" || f.PlaceHolder == "DIR" }

// words are what may stand at a stop.
func (s stop) words() string {
	words := append([]string{}, s.values...)
	for _, c := range s.children {
		words = append(words, c.Name)
	}
	for _, f := range s.flags {
		words = append(words, "--"+f.Name)
	}
	return strings.Join(words, " ")
}

// steps are the words that lead from one stop to the next, as patterns of a shell's case.
func steps(all []stop, between string) string {
	var patterns []string
	for _, s := range all {
		for _, c := range s.children {
			patterns = append(patterns, fmt.Sprintf("%q", s.path+" "+c.Name))
		}
	}
	return strings.Join(patterns, between)
}

// quoted is text inside single quotes of any of the shells, as a description needs it.
func quoted(text string) string {
	return strings.NewReplacer("'", "’", `\`, "/", "\n", " ").Replace(text)
}

func bash(b *strings.Builder, all []stop) {
	fmt.Fprintf(b, `# bash completion for comanda: source <(comanda completion bash)
_comanda() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" at="" words="" w
  if [[ $cur == "=" ]]; then cur=""; elif [[ $prev == "=" ]]; then prev="${COMP_WORDS[COMP_CWORD-2]}"; fi
  for w in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$at $w" in
      %s) at="${at:+$at }$w" ;;
    esac
  done
  COMPREPLY=()
  case "$at $prev" in
`, steps(all, " | "))
	for _, s := range all {
		for _, f := range s.flags {
			switch {
			case f.Enum != "":
				fmt.Fprintf(b, "    %q) COMPREPLY=($(compgen -W %q -- \"$cur\")); return ;;\n", s.path+" --"+f.Name, strings.Join(choices(f.Value), " "))
			case isPath(f):
				fmt.Fprintf(b, "    %q) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", s.path+" --"+f.Name)
			case !f.IsBool():
				fmt.Fprintf(b, "    %q) return ;;\n", s.path+" --"+f.Name)
			}
		}
	}
	b.WriteString("  esac\n  case \"$at\" in\n")
	for _, s := range all {
		fmt.Fprintf(b, "    %q) words=%q ;;\n", s.path, s.words())
	}
	b.WriteString("  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -F _comanda comanda\n")
}

func zsh(b *strings.Builder, all []stop) {
	fmt.Fprintf(b, `#compdef comanda
# zsh completion for comanda: source <(comanda completion zsh), after compinit
_comanda() {
  local at="" w
  local -a commands flags
  for w in "${(@)words[2,CURRENT-1]}"; do
    case "$at $w" in
      (%s) at="${at:+$at }$w" ;;
    esac
  done
  case "$at ${words[CURRENT-1]}" in
`, steps(all, "|"))
	for _, s := range all {
		for _, f := range s.flags {
			switch {
			case f.Enum != "":
				fmt.Fprintf(b, "    (%q) compadd -- %s; return ;;\n", s.path+" --"+f.Name, strings.Join(choices(f.Value), " "))
			case isPath(f):
				fmt.Fprintf(b, "    (%q) _files; return ;;\n", s.path+" --"+f.Name)
			case !f.IsBool():
				fmt.Fprintf(b, "    (%q) return ;;\n", s.path+" --"+f.Name)
			}
		}
	}
	b.WriteString("  esac\n  case \"$at\" in\n")
	for _, s := range all {
		fmt.Fprintf(b, "    (%q)\n      commands=(%s", s.path, strings.Join(s.values, " "))
		for _, c := range s.children {
			fmt.Fprintf(b, " '%s:%s'", c.Name, strings.ReplaceAll(quoted(c.Help), ":", `\:`))
		}
		b.WriteString(")\n      flags=(")
		for _, f := range s.flags {
			fmt.Fprintf(b, " '--%s:%s'", f.Name, strings.ReplaceAll(quoted(f.Help), ":", `\:`))
		}
		b.WriteString(") ;;\n")
	}
	b.WriteString("  esac\n  (( $#commands )) && _describe command commands\n  _describe flag flags\n}\ncompdef _comanda comanda\n")
}

func fish(b *strings.Builder, all []stop) {
	fmt.Fprintf(b, `# fish completion for comanda: comanda completion fish | source
function __comanda_at
  set -l at ""
  for w in (commandline -opc)[2..-1]
    switch "$at $w"
      case %s
        set at (string trim "$at $w")
    end
  end
  test "$at" = "$argv[1]"
end
complete -c comanda -f
`, steps(all, " "))
	for _, s := range all {
		at := fmt.Sprintf("complete -c comanda -n '__comanda_at %q'", s.path)
		for _, v := range s.values {
			fmt.Fprintf(b, "%s -a %s\n", at, v)
		}
		for _, c := range s.children {
			fmt.Fprintf(b, "%s -a %s -d '%s'\n", at, c.Name, quoted(c.Help))
		}
		for _, f := range s.flags {
			value := ""
			switch {
			case f.Enum != "":
				value = fmt.Sprintf(" -x -a %q", strings.Join(choices(f.Value), " "))
			case isPath(f):
				value = " -r -F"
			case !f.IsBool():
				value = " -x"
			}
			fmt.Fprintf(b, "%s -l %s%s -d '%s'\n", at, f.Name, value, quoted(f.Help))
		}
	}
}
