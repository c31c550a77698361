package cli

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"comanda/store"
)

func (c *doctorCmd) Run(s *session) error {
	ofWire, err := c.checkCertificate(time.Now())
	if err != nil {
		return err
	}
	checks, err := store.Examine(s.ctx, c.DB, store.Options{Readers: readers, MustExist: true})
	if err != nil {
		return err
	}
	report := doctorReport{Checks: append(checks, ofWire...)}
	var wrong []string
	for _, check := range checks {
		switch check.Level {
		case store.LevelWrong:
			wrong = append(wrong, check.Name)
		case store.LevelWarning:
			report.Warnings++
		}
	}
	report.Wrong, report.OK = len(wrong), len(wrong) == 0
	if c.JSON {
		err = s.json(report)
	} else {
		s.doctor(report, c.DB)
	}
	if err == nil && !report.OK {
		return fmt.Errorf("doctor found something wrong with %s (%s): the report says what to do", c.DB, strings.Join(wrong, "; "))
	}
	return err
}

type doctorReport struct {
	OK       bool          `json:"ok"` // nothing is wrong; warnings may be there
	Wrong    int           `json:"wrong"`
	Warnings int           `json:"warnings"`
	Checks   []store.Check `json:"checks"`
}

var command = regexp.MustCompile("`comanda [^`]+")

// onFile has the commands that a detail names ask the file that was examined, if it is not the usual one.
func onFile(detail, db string) string {
	if db == "comanda.db" {
		return detail
	}
	return command.ReplaceAllStringFunc(detail, func(c string) string { return c + " --db " + shellQuote(db) })
}

// doctor prints each check with its answer, and below it its SQL and what to do.
func (s *session) doctor(r doctorReport, db string) {
	for _, c := range r.Checks {
		s.printf("%-8s %s: %s\n", c.Level, s.show(c.Name), s.show(c.Answer))
		if c.SQL != "" {
			s.printf("         %s\n", s.show(strings.Join(strings.Fields(c.SQL), " ")))
		}
		if c.Detail != "" {
			s.printf("         → %s\n", s.show(onFile(c.Detail, db)))
		}
	}
	s.printf("\n%s: %d wrong, %s\n", plural(len(r.Checks), "check"), r.Wrong, plural(r.Warnings, "warning"))
}
