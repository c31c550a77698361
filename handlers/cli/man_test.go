package cli

import (
	"os/exec"
	"strings"
	"testing"
)

// The page has every command and flag with its variable and its default, and is the same each time.
func TestManTellsEverything(t *testing.T) {
	b := newBench("COMANDA_DB=elsewhere.db")
	if code := b.run("man"); code != 0 || b.err.Len() > 0 {
		t.Fatal(b.err.String())
	}
	page := b.out.String()
	flags, err := Flags()
	if err != nil {
		t.Fatal(err)
	}
	section := func(command string) string {
		t.Helper()
		for part := range strings.SplitSeq(page, "\n.SS ") {
			if strings.HasPrefix(part, roff("comanda "+command)+"\n") || strings.HasPrefix(part, roff("comanda "+command)+" ") {
				return part
			}
		}
		t.Fatalf("%s is not in the page", command)
		return ""
	}
	for _, f := range flags {
		text := section(f.Command)
		if !strings.Contains(text, "\n.B "+roff(f.Name)) || f.Twin != "" && !strings.Contains(text, roff(f.Twin)) || !strings.Contains(text, roff(f.Default)) || !strings.Contains(text, roff(f.Help)) {
			t.Errorf("the page does not tell all of %+v", f)
		}
	}
	for _, want := range []string{".TH COMANDA 1 ", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH ENVIRONMENT\n", ".SH EXIT STATUS\n", ".SH FILES\n", ".SH EXAMPLES\n"} {
		if strings.Count(page, want) != 1 {
			t.Errorf("%q stands %d times in the page", want, strings.Count(page, want))
		}
	}
	again := newBench()
	if again.run("man"); again.out.String() != page {
		t.Error("the page is another one at another time or in another environment")
	}
}

// What a sentence holds is shown and not obeyed.
func TestManIsPlain(t *testing.T) {
	for text, want := range map[string]string{
		".TH no request": `\&.TH no request`, "'br": `\(aqbr`, `a\fBb`: `a\efBb`, "--db": `\-\-db`, "a\n.sp": "a .sp",
	} {
		if got := roff(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// The typesetter has nothing to complain of.
func TestManIsSet(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed here")
	}
	b := newBench()
	b.run("man")
	cmd := exec.Command(groff, "-man", "-Tutf8", "-Kutf8", "-ww", "-P-cbou")
	cmd.Stdin = strings.NewReader(b.out.String())
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Errorf("%v %s", err, errs.String())
	}
	for _, want := range []string{"comanda health", "--wait=DURATION", "COMANDA_WAIT", "comanda tickets list --status review"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the set page lacks %q", want)
		}
	}
}
