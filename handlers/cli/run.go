package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"comanda/store"

	"github.com/alecthomas/kong"
)

// Exit codes.
const (
	exitFine   = 0
	exitFailed = 1
	exitUsage  = 2
)

// Run runs the command that args name (without the program's own name) and returns the exit code.
// What it prints goes to p's streams.
func Run(ctx context.Context, args []string, p Program) int {
	k, env, err := parser(grammarFor(args), p.Environ)
	if err != nil {
		return p.fail(fmt.Errorf("the command line can't be built: %w", err), env)
	}
	kctx, err := k.Parse(args)
	switch {
	case errors.Is(err, errHelp):
		return p.finish(p.print([]byte(helpFor(commandMeant(err, k, args)))), env)
	case err != nil:
		return p.fail(Usage(fmt.Errorf("%w; see `comanda --help`", err)), env)
	}
	s := &session{ctx: ctx, program: p, settings: settingsOf(kctx, env)}
	if err := kctx.Run(s); err != nil {
		_ = p.print(s.out.Bytes()) // what was found out before it failed
		return p.fail(err, env)
	}
	return p.finish(p.print(s.out.Bytes()), env)
}

// session is one run of one command. What it writes is printed when the command has ended.
type session struct {
	ctx      context.Context
	program  Program
	settings []Setting // of the command
	out      bytes.Buffer
}

// commandMeant is the command whose help was asked for: the last one named. kong takes serve for
// named where no command is.
func commandMeant(err error, k *kong.Kong, args []string) *kong.Node {
	var parse *kong.ParseError
	if !errors.As(err, &parse) || parse.Context == nil {
		return k.Model.Node
	}
	for _, p := range slices.Backward(parse.Context.Path) {
		if p.Command != nil && slices.Contains(args, p.Command.Name) {
			return p.Command
		}
	}
	return k.Model.Node
}

func (p Program) print(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if _, err := p.Stdout.Write(text); err != nil {
		return fmt.Errorf("the answer can't be written: %w", err)
	}
	return nil
}

func (p Program) finish(err error, env *environment) int {
	if err != nil {
		return p.fail(err, env)
	}
	return exitFine
}

func (p Program) fail(err error, env *environment) int {
	text := visible(strings.ReplaceAll(strings.TrimSpace(advice(err)), "\n", "; "), true)
	if env != nil {
		text = env.blame(text)
	}
	fmt.Fprintf(p.Stderr, "comanda: %s\n", text)
	if isUsage(err) || errors.Is(err, store.ErrRefused) {
		return exitUsage
	}
	return exitFailed
}

// advice is the error's text with what to do about it, where the error does not say so itself.
func advice(err error) string {
	switch {
	case errors.Is(err, store.ErrBusy):
		return "another process is writing to the file and did not make room: try again in a moment (" + err.Error() + ")"
	case errors.Is(err, store.ErrFull):
		return "the disk is full, nothing was written: free some space and try again (" + err.Error() + ")"
	case errors.Is(err, store.ErrUnknownOutcome):
		return err.Error() + ": look whether it was written before you try again"
	}
	return err.Error()
}
