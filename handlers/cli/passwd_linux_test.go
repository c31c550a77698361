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
	"time"

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

// prompted is what the program says, and tells of each question.
type prompted struct {
	mu   sync.Mutex
	said strings.Builder
	ask  chan struct{}
}

func (p *prompted) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasSuffix(string(b), ": ") {
		defer func() { p.ask <- struct{}{} }()
	}
	return p.said.Write(b)
}

// At a terminal the password is asked for twice and not shown; an interruption leaves the terminal as it was.
func TestPasswdAtATerminal(t *testing.T) {
	ours, theirs := terminal(t)
	b, db := newBench(), filepath.Join(t.TempDir(), "c.db")
	asked := &prompted{ask: make(chan struct{}, 4)}
	b.program.Stdin, b.program.Stderr = theirs, asked
	shown := bufio.NewReader(ours)
	answers := func(ctx context.Context, lines ...string) (code int) {
		done := make(chan int, 1)
		go func() { done <- Run(ctx, []string{"passwd", "--db", db}, b.program) }()
		for _, line := range lines {
			<-asked.ask
			for giveUp := time.Now().Add(10 * time.Second); echoes(t, theirs) && time.Now().Before(giveUp); {
				time.Sleep(time.Millisecond)
			}
			if _, err := io.WriteString(ours, line+"\n"); err != nil {
				t.Error(err)
			}
		}
		code = <-done
		if _, err := io.WriteString(theirs, "all\n"); err != nil {
			t.Error(err)
		}
		if text, err := shown.ReadString('\n'); err != nil || text != "all\r\n" {
			t.Errorf("the terminal has shown %q, %v", text, err)
		}
		return code
	}
	if code := answers(t.Context(), goodPassword, goodPassword); code != 0 || !echoes(t, theirs) {
		t.Errorf("passwd exits %d: %s", code, asked.said.String())
	}
	if code := answers(t.Context(), goodPassword, "another password"); code != exitUsage || !strings.Contains(asked.said.String(), "two passwords differ") {
		t.Errorf("two that differ exit %d: %s", code, asked.said.String())
	}
	ctx, interrupt := context.WithCancel(t.Context())
	go func() { <-asked.ask; interrupt() }()
	if code := answers(ctx); code != exitFailed || !echoes(t, theirs) || !strings.Contains(asked.said.String(), "interrupted") {
		t.Errorf("an interruption exits %d, and the terminal is left dumb: %t", code, !echoes(t, theirs))
	}
}
