package cli

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Setting is one setting that a process was started with, as it may be shown.
type Setting struct {
	Name   string // "--batch"
	Value  string // of an address no more than what names it: the rest may hold a secret
	Origin string // "default", "--batch" or "COMANDA_BATCH"
}

// settingsOf lists the flags of the command that was parsed, in the order of its help. Secrets come from files, so
// that a flag holds none but in an address.
func settingsOf(parsed *kong.Context, env *environment) (all []Setting) {
	node := parsed.Selected()
	if node == nil {
		return nil
	}
	given := map[string]bool{}
	for _, p := range parsed.Path {
		if p.Flag != nil && !p.Resolved {
			given[p.Flag.Name] = true
		}
	}
	for _, f := range node.Flags {
		if f.Name == "help" || f.Hidden {
			continue
		}
		s := Setting{Name: "--" + f.Name, Value: shownValue(f), Origin: "default"}
		if variable := env.used[f.Name]; variable != "" {
			s.Origin = variable
		}
		if given[f.Name] {
			s.Origin = s.Name
		}
		all = append(all, s)
	}
	return all
}

func shownValue(f *kong.Flag) string {
	if list, ok := f.Target.Interface().([]string); ok {
		shown := slices.Clone(list)
		for i := range shown {
			shown[i] = withoutSecret(f.Name, shown[i])
		}
		return strings.Join(shown, ", ")
	}
	value := fmt.Sprint(f.Target.Interface())
	if s, ok := f.Target.Interface().(fmt.Stringer); ok {
		value = s.String()
	}
	return withoutSecret(f.Name, value)
}

// withoutSecret shortens an address by what may be a password or a token in it. That of a chat's webhook is secret
// in its path.
func withoutSecret(flag, value string) string {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" {
		if strings.HasSuffix(flag, "-url") && value != "" {
			return "…"
		}
		return value
	}
	short := u.Scheme + "://" + u.Host
	if flag == "alert-url" {
		return short + "/…"
	}
	short += u.EscapedPath()
	if u.RawQuery != "" {
		short += "?…"
	}
	return short
}
