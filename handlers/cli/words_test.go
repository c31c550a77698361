package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"comanda/handlers/graph"

	"github.com/google/go-cmp/cmp"
)

// The flag takes the languages that there are; each has every message, with the same things to fill in.
func TestCataloguesAgree(t *testing.T) {
	read := func(lang string) (texts map[string]string) {
		raw, err := catalogues.ReadFile("words/" + lang + ".json")
		if err == nil {
			err = json.Unmarshal(raw, &texts)
		}
		if err != nil {
			t.Fatal(err)
		}
		return texts
	}
	filled := func(text string) []string {
		names := regexp.MustCompile(`{{.*?}}`).FindAllString(text, -1)
		slices.Sort(names)
		return names
	}
	texts := read("en")
	for _, lang := range graph.Languages[1:] {
		other := read(lang)
		for id, text := range texts {
			if diff := cmp.Diff(filled(text), filled(other[id])); diff != "" || other[id] == "" || other[id] == text {
				t.Errorf("%s: %s is %q: %s", lang, id, other[id], diff)
			}
		}
		if len(other) != len(texts) {
			t.Errorf("%s has %d messages instead of %d", lang, len(other), len(texts))
		}
	}
	flags, err := Flags()
	if err != nil || !slices.ContainsFunc(flags, func(f Flag) bool {
		return f.Name == "--lang" && strings.Contains(f.Help, strings.Join(graph.Languages, " or "))
	}) {
		t.Errorf("--lang does not name %q: %v", graph.Languages, err)
	}
}

// Every message is said, here or in main.
func TestNoDeadWords(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, file := range append(files, "../../main.go") {
		if !strings.HasSuffix(file, "_test.go") {
			source.WriteString(readText(t, file))
		}
	}
	var texts map[string]string
	if err := json.Unmarshal([]byte(readText(t, "words/en.json")), &texts); err != nil {
		t.Fatal(err)
	}
	for id := range texts {
		if !strings.Contains(source.String(), `.Text("`+id+`"`) {
			t.Errorf("nobody says %q", id)
		}
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestBannerSpeaks(t *testing.T) {
	spanish, err := Speak("es")
	if err != nil {
		t.Fatal(err)
	}
	for part, words := range map[string]Words{"  comanda is up\n": {}, "  comanda está en marcha\n": spanish} {
		for _, info := range []BannerInfo{{URL: "http://x", File: "/it's a file.db", Words: words}, {URL: "http://x", Words: words, Throwaway: true}} {
			var b strings.Builder
			Banner(&b, info)
			for _, part := range []string{part, "curl -sS http://x/webhooks/orders", `"order_id":"ORD-2041"`, "Ctrl-C"} {
				if !strings.Contains(b.String(), part) || strings.Contains(b.String(), "<no value>") {
					t.Errorf("it does not say %q:\n%s", part, &b)
				}
			}
			if quoted := `'/it'\''s a file.db'-wal`; !info.Throwaway && !strings.Contains(b.String(), quoted) {
				t.Errorf("it does not say %q:\n%s", quoted, &b)
			}
		}
	}
	var b strings.Builder
	Banner(&b, BannerInfo{URL: "http://[::]:8080", Insecure: true})
	if !strings.Contains(b.String(), "--insecure") || !strings.Contains(b.String(), "curl -sS http://127.0.0.1:8080/api/") {
		t.Errorf("at every address without a password it says\n%s", &b)
	}
	if _, err := Speak("fr"); !isUsage(err) {
		t.Errorf("an unknown language: %v", err)
	}
}
