package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// environment answers the flags' twins and remembers which it answered, so that a complaint about a
// value can say where the value came from.
type environment struct {
	values map[string]string
	used   map[string]string // flag name → variable
}

func newEnvironment(environ []string) *environment {
	e := &environment{values: map[string]string{}, used: map[string]string{}}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "COMANDA_") && value != "" {
			e.values[name] = value
		}
	}
	return e
}

func (e *environment) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if value, ok := e.values[name]; ok {
			e.used[flag.Name] = name
			return value, nil
		}
	}
	return nil, nil
}

// blame adds to a complaint about flags which of their values came from the environment.
func (e *environment) blame(sentence string) string {
	if !strings.HasPrefix(sentence, "--") {
		return sentence
	}
	var from []string
	for word := range strings.FieldsSeq(sentence) {
		flag := strings.TrimRight(word, ":;,")
		name, isFlag := strings.CutPrefix(flag, "--")
		if variable := e.used[name]; isFlag && variable != "" {
			from = append(from, flag+" comes from "+variable)
		}
	}
	if len(from) == 0 {
		return sentence
	}
	return sentence + " (" + strings.Join(slices.Compact(from), ", ") + ")"
}
