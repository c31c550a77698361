// Package schema holds the tables of a comanda file and the order in which they came to be.
// It is DDL and nothing else: store applies the steps, each in one transaction, and keeps
// their checksums in the file so that a changed step is noticed (TestMigrateRefusesAChangedStep).
package schema

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
)

// ApplicationID marks a SQLite file as ours (PRAGMA application_id). It spells "CMND".
const ApplicationID = 0x434D4E44

// PageSize is the page size of every file in bytes, which is SQLite's default and the block size of most disks: a write
// that the power cuts short can spoil no page but the one that it is about, and that stands in the -wal.
const PageSize = 4096

// Step is one embedded migration. A released step is never edited; a change is a new step.
type Step struct {
	Version  int    // 1, 2, 3 …; the file's PRAGMA user_version after it
	Name     string // the file's name, "0001_core.sql"
	SQL      string
	Checksum string // hex SHA-256 of SQL
}

//go:embed steps/*.sql
var files embed.FS

// Steps returns all steps in the order in which they are applied.
func Steps() ([]Step, error) {
	names, err := fs.Glob(files, "steps/*.sql") // sorted
	if err != nil {
		return nil, fmt.Errorf("list schema steps: %w", err)
	}
	steps := make([]Step, 0, len(names))
	for i, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read schema step: %w", err)
		}
		sum := sha256.Sum256(text)
		steps = append(steps, Step{
			Version: i + 1, Name: name[len("steps/"):], SQL: string(text), Checksum: hex.EncodeToString(sum[:]),
		})
	}
	return steps, nil
}
