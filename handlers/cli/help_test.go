package cli

import (
	"strings"
	"testing"
)

// A server's start reads its own part of the grammar alone: it is the same there.
func TestServeIsTheSameAlone(t *testing.T) {
	for _, args := range [][]string{nil, {"serve"}, {"serve", "doctor"}, {"serve", "--addr", "127.0.0.1:1"}} {
		if _, alone := grammarFor(args).(*serveGrammar); !alone {
			t.Errorf("%q reads the whole grammar", args)
		}
	}
	for _, args := range [][]string{{"relay"}, {"--db", "serve"}, {"--help"}, {"srve"}} {
		if _, whole := grammarFor(args).(*grammar); !whole {
			t.Errorf("%q reads a part of the grammar", args)
		}
	}
	var help []string
	for _, g := range []any{&grammar{}, &serveGrammar{}} {
		k, _, err := parser(g, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range k.Model.Children {
			if n.Name == "serve" {
				help = append(help, helpFor(n))
			}
		}
	}
	if len(help) != 2 || help[0] != help[1] || !strings.Contains(help[0], "--require-login") {
		t.Errorf("%q", help)
	}
}
