package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is the two ends of one: ours, and the program's.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this system makes no terminals: ", err)
	}
	t.Cleanup(func() { ours.Close() })
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

func echoes(t *testing.T, f *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// prompted is what the program says, and does as it is told at each question.
type prompted struct {
	mu       sync.Mutex
	said     strings.Builder
	question func()
}

func (p *prompted) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasSuffix(string(b), ": ") {
		p.question()
	}
	return p.said.Write(b)
}

// At a terminal the password is asked for twice and not shown; whatever ends the questions leaves the terminal as it was.
func TestPasswdAtATerminal(t *testing.T) {
	const signal = "a signal, not a key"
	for name, c := range map[string]struct {
		keys []string
		code int
		says string
	}{
		"twice the same":      {[]string{goodPassword + "\r", goodPassword + "\r"}, 0, "The same again: "},
		"two that differ":     {[]string{goodPassword + "\r", "another password\r"}, exitUsage, "two passwords differ"},
		"one that is short":   {[]string{"short\r"}, exitUsage, "the password"},
		"a signal":            {[]string{signal}, exitFailed, "interrupted: nothing was changed"},
		"a signal in between": {[]string{goodPassword + "\r", signal}, exitFailed, "interrupted: nothing was changed"},
		"Ctrl-C":              {[]string{"half a pass\x03"}, exitFailed, "interrupted: nothing was changed"},
		"Ctrl-D":              {[]string{goodPassword + "\r", "\x04"}, exitFailed, "interrupted: nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := terminal(t)
			ctx, interrupt := context.WithCancel(t.Context())
			asked := &prompted{}
			asked.question = func() {
				if echoes(t, theirs) {
					t.Error("the question is asked of a terminal that shows the answer")
				}
				if len(c.keys) == 0 {
					t.Error("one question too many")
					interrupt()
					return
				}
				keys := c.keys[0]
				if c.keys = c.keys[1:]; keys == signal {
					interrupt()
				} else if _, err := io.WriteString(ours, keys); err != nil {
					t.Error(err)
				}
			}
			b := newBench()
			b.program.Stdin, b.program.Stderr = theirs, asked
			code := Run(ctx, []string{"passwd", "--db", filepath.Join(t.TempDir(), "c.db")}, b.program)
			if code != c.code || !strings.Contains(asked.said.String(), c.says) || len(c.keys) > 0 {
				t.Errorf("it exits %d with %d answers left: %s", code, len(c.keys), asked.said.String())
			}
			if !echoes(t, theirs) {
				t.Error("the terminal is left dumb")
			}
			if _, err := io.WriteString(theirs, "all\n"); err != nil {
				t.Error(err)
			}
			if shown, err := bufio.NewReader(ours).ReadString('\n'); err != nil || shown != "all\r\n" {
				t.Errorf("the terminal has shown %q, %v", shown, err)
			}
		})
	}
}
