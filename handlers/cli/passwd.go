package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"comanda/handlers/door"
	secretfile "comanda/handlers/secret"
	"comanda/store"
)

type passwdCmd struct {
	Name         string `arg:"" optional:"" default:"admin" help:"The account's name; admin if not given."`
	Role         string `env:"-" enum:"view,operate" default:"operate" placeholder:"ROLE" help:"What the account may do: view (look) or operate (act too)."`
	PasswordFile string `placeholder:"FILE" help:"Take the password from a file; otherwise it is asked for at the terminal, or read from what is piped in."`
	Remove       bool   `env:"-" help:"Take the account away instead."`
	List         bool   `env:"-" help:"List the accounts instead."`
	fileFlag
	jsonFlag
}

// passwordBytes is more than a password may have, so that one that is too long is told from one that is cut.
const passwordBytes = 8 << 10

func (c *passwdCmd) Run(s *session) error {
	if c.List {
		return c.list(s)
	}
	if fault := door.CheckName(c.Name); fault != "" {
		return Usage(fmt.Errorf("NAME %s", fault))
	}
	if c.Remove {
		return c.remove(s)
	}
	password, err := c.password(s)
	if err != nil {
		return err
	}
	if fault := door.CheckPassword(password); fault != "" {
		return Usage(fmt.Errorf("the password %s", fault))
	}
	kept := door.HashPassword(password)
	err = s.makeOrUpdate(c.DB, func(tx *store.Tx) error { return tx.SetAccount(c.Name, c.Role, kept, who()) })
	if err != nil {
		return err
	}
	if c.JSON {
		return s.json(map[string]string{"name": c.Name, "role": c.Role})
	}
	s.printf("%s may log in, with the role %s; whoever was logged in as %s no longer is\n", c.Name, c.Role, c.Name)
	return nil
}

func (c *passwdCmd) remove(s *session) error {
	err := s.update(c.DB, func(tx *store.Tx) error {
		removed, err := tx.RemoveAccount(c.Name, who())
		if err == nil && !removed {
			err = fmt.Errorf("there is no account %s: `comanda passwd --list` lists them", c.Name)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return s.json(map[string]string{"removed": c.Name})
	}
	s.printf("%s may not log in any more, and whoever was logged in as %s no longer is\n", c.Name, c.Name)
	return nil
}

func (c *passwdCmd) list(s *session) error {
	var all []store.Account
	err := s.view(c.DB, "", func(tx *store.Tx) (err error) {
		all, err = tx.Accounts()
		return err
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return s.json(all)
	case len(all) == 0:
		s.printf("there is no account: `comanda passwd` makes one\n")
		return nil
	}
	return s.table(func(row func(...string)) {
		row("account", "role", "made at", "password set at")
		for _, a := range all {
			row(a.Name, a.Role, instant(a.CreatedAt), instant(a.ChangedAt))
		}
	})
}

// password is asked for twice at a terminal, and read without its line end from anywhere else.
func (c *passwdCmd) password(s *session) (string, error) {
	if c.PasswordFile != "" {
		f, err := os.Open(c.PasswordFile)
		if err != nil {
			return "", Usage(fmt.Errorf("--password-file: %w", secretfile.Unread(err)))
		}
		defer f.Close()
		return readPassword(f)
	}
	if f, ok := s.program.Stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return s.askPassword(f, c.Name)
	}
	if s.program.Stdin == nil {
		return "", Usage(errors.New("there is nowhere to read the password from: give --password-file"))
	}
	return readPassword(s.program.Stdin)
}

func readPassword(from io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(from, passwordBytes))
	if err != nil {
		return "", fmt.Errorf("the password can't be read: %w", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

func (s *session) askPassword(terminal *os.File, name string) (string, error) {
	first, err := s.askOnce(terminal, "Password of "+name+": ")
	if err != nil {
		return "", err
	}
	if fault := door.CheckPassword(first); fault != "" {
		return "", Usage(fmt.Errorf("the password %s", fault))
	}
	second, err := s.askOnce(terminal, "The same again: ")
	if err == nil && first != second {
		err = Usage(errors.New("the two passwords differ: nothing was changed"))
	}
	return first, err
}

// askOnce reads a line that is not shown. Interrupted, it leaves the terminal as it was.
func (s *session) askOnce(terminal *os.File, prompt string) (string, error) {
	before, err := term.GetState(int(terminal.Fd()))
	if err != nil {
		return "", fmt.Errorf("the terminal can't be asked for a password: %w", err)
	}
	fmt.Fprint(s.program.Stderr, prompt)
	type answer struct {
		line []byte
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		line, err := term.ReadPassword(int(terminal.Fd()))
		answered <- answer{line, err}
	}()
	defer fmt.Fprintln(s.program.Stderr)
	select {
	case a := <-answered:
		if a.err != nil {
			return "", fmt.Errorf("the password can't be read: %w", a.err)
		}
		return string(a.line), nil
	case <-s.ctx.Done():
		_ = term.Restore(int(terminal.Fd()), before)
		return "", errors.New("interrupted: nothing was changed")
	}
}
