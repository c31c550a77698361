package store

import (
	"fmt"
)

// Space is how full the disk under a file is, and what it is. Bytes are those that a program without privileges may use; parts
// are in per cent, rounded up. A filesystem without a bound on its number of files has UsedFiles 0.
type Space struct {
	Free, Total     uint64
	Used, UsedFiles int
	Filesystem      string // "ext4", "tmpfs", "FAT"
}

// Volatile reports whether the disk forgets everything when the power is cut.
func (s Space) Volatile() bool { return s.Filesystem == "tmpfs" }

// How full a disk may be, in per cent.
const (
	// NearlyFull is worth telling a person.
	NearlyFull = 95
	// TooFull stops what can be done without: keeping refused bodies, noting the passes of relays, bringing the
	// planner's statistics up to date. Orders, tickets and what came of them are written as long as it goes.
	TooFull = 98
)

// part is how much of a whole is used, in per cent.
func part(used, free uint64) int {
	if used+free == 0 {
		return 0
	}
	return int((used*100 + used + free - 1) / (used + free))
}

// LookAtSpace asks how full the disk is, and stops or lets go on what can be done without. A disk that does not
// answer keeps the caller waiting.
func (db *DB) LookAtSpace() (Space, error) {
	s, err := db.opt.Space(dirOf(db.path))
	if err != nil {
		return s, fmt.Errorf("ask how full the disk is: %w", err)
	}
	db.tight.Store(s.Used >= TooFull)
	return s, nil
}

// Tight reports whether the last look found the disk so full that what can be done without is not done.
func (db *DB) Tight() bool { return db.tight.Load() }

// Words says of a disk that is nearly full what there is to say; "" of another.
func (s Space) Words() string {
	switch {
	case s.Used >= TooFull:
		return fmt.Sprintf("%d %% of the disk is used: orders are taken while there is room, and what can be done without is not written; free some space", s.Used)
	case s.Used >= NearlyFull:
		return fmt.Sprintf("%d %% of the disk is used: make room before it is full", s.Used)
	case s.UsedFiles >= NearlyFull:
		return fmt.Sprintf("%d %% of the disk's files are used: a start may find no room for its lock file; remove some files", s.UsedFiles)
	}
	return ""
}
