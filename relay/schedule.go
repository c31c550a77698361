package relay

import (
	"time"

	"github.com/robfig/cron/v3"
)

// Daily is due once on every date of the calendar of loc, at that hour and minute of the clock on its wall. A
// time of day that a clock change leaves out is due when the change is over; one that comes twice is due the
// first time. A date that the calendar leaves out has no run.
func Daily(hour, minute int, loc *time.Location) cron.Schedule {
	return daily{hour, minute, loc}
}

type daily struct {
	hour, minute int
	loc          *time.Location
}

// Next returns the first time after t, in the location of t.
func (d daily) Next(t time.Time) time.Time {
	year, month, day := t.In(d.loc).Date()
	for ; ; day++ {
		wall := time.Date(year, month, day, d.hour, d.minute, 0, 0, time.UTC)
		if at, ok := moment(wall, d.loc); ok && at.After(t) {
			return at.In(t.Location())
		}
	}
}

// onTheWall gives a cron spec that names hours the rules of Daily. One that holds at every hour needs none: no
// change of the clock is longer than it waits.
func onTheWall(s cron.Schedule) cron.Schedule {
	const everyHour = 1 << 63 // how the parser notes a star
	spec, ok := s.(*cron.SpecSchedule)
	if !ok || spec.Hour&everyHour != 0 {
		return s
	}
	loc := spec.Location
	shown := *spec
	shown.Location = time.UTC
	return wall{&shown, loc}
}

// wall is a spec for what the clock on the wall shows.
type wall struct {
	shown *cron.SpecSchedule
	loc   *time.Location // time.Local means that of the time it is asked about, as for the parser
}

// Next returns the first time after t, in the location of t, or zero.
func (w wall) Next(t time.Time) time.Time {
	loc := w.loc
	if loc == time.Local {
		loc = t.Location()
	}
	year, month, day := t.In(loc).Date()
	hour, minute, second := t.In(loc).Clock()
	next := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	for {
		if next = w.shown.Next(next); next.IsZero() {
			return next
		}
		if at, ok := moment(next, loc); ok && at.After(t) {
			return at.In(t.Location())
		}
	}
}

// moment returns the first moment at which the wall clock of loc shows wall (in UTC, for want of a type without
// a zone) or more. If that is on a later date it is the last second of wall's own date; false means that there
// is no such date.
func moment(wall time.Time, loc *time.Location) (at time.Time, ok bool) {
	at = firstShown(wall, loc)
	if sameDate(at, wall) {
		return at, true
	}
	at = at.Add(-time.Second)
	return at, sameDate(at, wall)
}

// firstShown walks from one change of the clock to the next: no zone is a day away from UTC.
func firstShown(wall time.Time, loc *time.Location) time.Time {
	at := wall.Add(-24 * time.Hour).In(loc)
	for {
		_, offset := at.Zone()
		_, change := at.ZoneBounds()
		shown := wall.Add(-time.Duration(offset) * time.Second).In(loc)
		switch {
		case !shown.After(at): // the change itself went past it
			return at
		case change.IsZero() || shown.Before(change):
			return shown
		}
		at = change
	}
}

func sameDate(a, b time.Time) bool {
	aYear, aMonth, aDay := a.Date()
	bYear, bMonth, bDay := b.Date()
	return aYear == bYear && aMonth == bMonth && aDay == bDay
}
