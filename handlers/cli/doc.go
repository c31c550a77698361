// Package cli is the command line: it turns arguments and environment into settings, checks them,
// and either hands them to what main wired (serve, relay, demo, prove, world) or answers from the file.
//
// A command is a request too: it reads through store and writes to one stream. Exit codes are 0
// fine, 1 failed, 2 wrong usage or setting; an error goes to the error stream in one sentence. This
// package ends no process and reads no environment but the one that it is handed, and what a service manager
// leaves there for its own library.
//
// Invariants, and the tests that hold them:
//
//   - the help lists the commands that exist and nothing else: TestHelpListsWhatExists
//   - every flag has an environment twin, and prove, demo and world have none: TestEveryFlagHasATwin,
//     TestProveAndDemoReadOnlyTheLanguage, TestOutsideDoesNotReachTheLab
//   - what can't work is refused before anything is opened: TestSettingsAreChecked, TestTargetSettings,
//     TestBoundsHoldWithoutAnAddress
//   - no value can write to the terminal anything but visible characters: TestValuesAreMadeVisible
//   - `sql` changes nothing, in this file or another: TestSQLOnlyReads
package cli
