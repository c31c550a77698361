package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"comanda/handlers/door"
	secretfile "comanda/handlers/secret"
	"comanda/store"
)

type passwdCmd struct {
	Name         string `arg:"" optional:"" default:"admin" help:"The account's name; admin if not given."`
	Role         string `env:"-" enum:"view,operate," default:"" placeholder:"ROLE" help:"What the account may do: view (look) or operate (act too). Without it an account keeps its role, and a new one may act."`
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
	role := c.Role
	file, err := s.makeOrUpdate(c.DB, func(tx *store.Tx) error {
		before, known, err := tx.Account(c.Name)
		if err != nil {
			return err
		}
		switch {
		case c.Role == "" && known:
			role = before.Role
		case c.Role == "":
			role = store.RoleOperate
		}
		return tx.SetAccount(c.Name, role, kept, who())
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return s.json(map[string]string{"name": c.Name, "role": role, "file": file.path})
	}
	s.printf("%s may log in, with the role %s; whoever was logged in as %s before is not any more\n", c.Name, role, c.Name)
	s.printf("%s\n", file)
	return nil
}

func (c *passwdCmd) remove(s *session) error {
	var left []store.Account
	err := s.update(c.DB, func(tx *store.Tx) error {
		removed, err := tx.RemoveAccount(c.Name, who())
		if err == nil && !removed {
			err = fmt.Errorf("there is no account %s: `comanda passwd --list` lists them", c.Name)
		}
		if err == nil {
			left, err = tx.Accounts()
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
	if len(left) == 0 {
		fmt.Fprintln(s.program.Stderr, "comanda: that was the last account: a server beyond this machine starts again only once `comanda passwd` has made another")
	}
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
		text, err := secretfile.Read(c.PasswordFile)
		if err != nil {
			return "", Usage(fmt.Errorf("--password-file: %w", err))
		}
		return door.PasswordIn(text), nil
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
	return door.PasswordIn(text), nil
}

// askPassword hushes the terminal before the first question and lets go of it after the last one, interrupted or not. Nothing
// else touches its state: what is still waiting for a key when the program is interrupted could not put it back in time.
func (s *session) askPassword(terminal *os.File, name string) (string, error) {
	fd := int(terminal.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return "", fmt.Errorf("the terminal can't be asked for a password: %w", err)
	}
	defer term.Restore(fd, before)
	asked := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{terminal, s.program.Stderr}, "")
	first, err := s.askOnce(asked, "Password of "+name+": ")
	if err != nil {
		return "", err
	}
	if fault := door.CheckPassword(first); fault != "" {
		return "", Usage(fmt.Errorf("the password %s", fault))
	}
	second, err := s.askOnce(asked, "The same again: ")
	if err == nil && first != second {
		err = Usage(errors.New("the two passwords differ: nothing was changed"))
	}
	return first, err
}

// askOnce reads a line that is not shown. Ctrl-C and Ctrl-D are keys like others here, and interrupt as a signal does.
func (s *session) askOnce(asked *term.Terminal, prompt string) (string, error) {
	type answer struct {
		line string
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		line, err := asked.ReadPassword(prompt)
		answered <- answer{line, err}
	}()
	select {
	case a := <-answered:
		switch {
		case errors.Is(a.err, io.EOF):
			return "", errInterrupted
		case a.err != nil && !errors.Is(a.err, term.ErrPasteIndicator):
			return "", fmt.Errorf("the password can't be read: %w", a.err)
		}
		return a.line, nil
	case <-s.ctx.Done():
		fmt.Fprint(s.program.Stderr, "\r\n")
		return "", errInterrupted
	}
}

var errInterrupted = errors.New("interrupted: nothing was changed")
