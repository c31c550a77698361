package cli

import (
	"fmt"

	"comanda/handlers/door"
	"comanda/store"
)

type tokenCmd struct {
	Add    tokenAddCmd    `cmd:"" help:"Make a token for a program, and show it once."`
	List   tokenListCmd   `cmd:"" help:"List the tokens by name, with their last use."`
	Revoke tokenRevokeCmd `cmd:"" help:"Take a token away: whoever holds it is let in no more."`
}

type tokenAddCmd struct {
	Name string `arg:"" help:"The token's name, such as prometheus."`
	Role string `env:"-" required:"" enum:"view,operate" placeholder:"ROLE" help:"What the token may do: view (look) or operate (act too)."`
	fileFlag
	jsonFlag
}

type tokenListCmd struct {
	fileFlag
	jsonFlag
}

type tokenRevokeCmd struct {
	Name string `arg:"" help:"The token's name."`
	fileFlag
	jsonFlag
}

func (c *tokenAddCmd) Run(s *session) error {
	if fault := door.CheckName(c.Name); fault != "" {
		return Usage(fmt.Errorf("NAME %s", fault))
	}
	token, secret := door.NewToken()
	file, err := s.makeOrUpdate(c.DB, func(tx *store.Tx) error {
		added, err := tx.AddToken(c.Name, c.Role, secret, who())
		if err == nil && !added {
			err = fmt.Errorf("there is a token %s already: give another name, or take that one away with `comanda token revoke %s`", c.Name, c.Name)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return s.json(map[string]string{"name": c.Name, "role": c.Role, "token": token, "file": file.path})
	}
	s.printf("%s\n", token)
	fmt.Fprintf(s.program.Stderr, "Keep it now: it is not shown again. Send it as Authorization: Bearer.\n%s\n", file)
	return nil
}

func (c *tokenListCmd) Run(s *session) error {
	var all []store.Token
	err := s.view(c.DB, "", func(tx *store.Tx) (err error) {
		all, err = tx.Tokens()
		return err
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return s.json(all)
	case len(all) == 0:
		s.printf("there is no token: `comanda token add NAME --role view` makes one\n")
		return nil
	}
	return s.table(func(row func(...string)) {
		row("token", "role", "made at", "last used at")
		for _, t := range all {
			used := "-"
			if t.UsedAt != nil {
				used = instant(*t.UsedAt)
			}
			row(t.Name, t.Role, instant(t.CreatedAt), used)
		}
	})
}

func (c *tokenRevokeCmd) Run(s *session) error {
	err := s.update(c.DB, func(tx *store.Tx) error {
		revoked, err := tx.RevokeToken(c.Name, who())
		if err == nil && !revoked {
			err = fmt.Errorf("there is no token %s: `comanda token list` lists them", c.Name)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return s.json(map[string]string{"revoked": c.Name})
	}
	s.printf("whoever holds the token %s is let in no more\n", c.Name)
	return nil
}
