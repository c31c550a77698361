package relay

import (
	"testing"
	"time"
	_ "time/tzdata" // the zones of the tests, whatever the machine knows

	"github.com/robfig/cron/v3"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// On a date whose clock leaves the time out it runs when the change is over, on one that shows it twice the first time.
func TestDailyAtAClockChange(t *testing.T) {
	for _, c := range []struct {
		zone         string
		hour, minute int
		after, want  string
	}{
		{"America/New_York", 2, 30, "2027-03-13T02:30:00-05:00", "2027-03-14T03:00:00-04:00"}, // left out
		{"America/New_York", 2, 30, "2027-03-14T03:00:00-04:00", "2027-03-15T02:30:00-04:00"},
		{"America/New_York", 1, 30, "2027-11-06T12:00:00-04:00", "2027-11-07T01:30:00-04:00"}, // twice
		{"America/New_York", 1, 30, "2027-11-07T01:30:00-04:00", "2027-11-08T01:30:00-05:00"},
		{"America/New_York", 2, 30, "2027-11-07T00:00:00-04:00", "2027-11-07T02:30:00-05:00"},
		{"Australia/Lord_Howe", 2, 15, "2027-10-02T12:00:00+10:30", "2027-10-03T02:30:00+11:00"}, // half an hour
		{"Australia/Lord_Howe", 1, 45, "2027-04-04T00:00:00+11:00", "2027-04-04T01:45:00+11:00"},
		{"Australia/Lord_Howe", 1, 45, "2027-04-04T01:45:00+11:00", "2027-04-05T01:45:00+10:30"},
		{"Asia/Kathmandu", 2, 30, "2027-03-13T20:44:59Z", "2027-03-14T02:30:00+05:45"},
		{"Pacific/Apia", 2, 30, "2011-12-29T12:00:00-10:00", "2011-12-31T02:30:00+14:00"}, // there was no 30th
		{"America/Nuuk", 23, 30, "2027-03-27T12:00:00-02:00", "2027-03-27T22:59:59-02:00"},
		{"America/St_Johns", 0, 0, "2006-10-28T12:00:00-02:30", "2006-10-29T00:00:00-02:30"}, // 00:01 became 23:01 of the day before
		{"America/St_Johns", 0, 0, "2006-10-29T00:00:00-02:30", "2006-10-30T00:00:00-03:30"},
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		got := Daily(c.hour, c.minute, zone(t, c.zone)).Next(after).In(zone(t, c.zone)).Format(time.RFC3339)
		if got != c.want {
			t.Errorf("%s %02d:%02d after %s: %s, want %s", c.zone, c.hour, c.minute, c.after, got, c.want)
		}
	}
}

// Two years of nights in each zone, at times at which clocks are changed: one run on every date that there is.
func TestDailyRunsOnceADate(t *testing.T) {
	for _, name := range []string{
		"America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "America/St_Johns",
		"America/Nuuk", "America/Asuncion", "Africa/Casablanca", "Etc/GMT+12", "UTC",
	} {
		loc := zone(t, name)
		for _, from := range []int{2006, 2011, 2027} {
			for _, at := range [][2]int{{0, 0}, {0, 30}, {1, 45}, {2, 0}, {2, 30}, {3, 0}, {23, 30}} {
				checkOnceADate(t, loc, Daily(at[0], at[1], loc), time.Date(from, 1, 1, 0, 0, 0, 0, loc))
			}
		}
	}
}

func checkOnceADate(t *testing.T, loc *time.Location, s cron.Schedule, from time.Time) {
	t.Helper()
	const day = "2006-01-02"
	runs := map[string]int{}
	to := from.AddDate(2, 0, 0)
	for at := s.Next(from.Add(-time.Second)); at.Before(to); at = s.Next(at) {
		runs[at.In(loc).Format(day)]++
	}
	dates := map[string]bool{}
	for at := from; at.Before(to); at = at.Add(time.Hour) {
		dates[at.Format(day)] = true
	}
	for date := range dates {
		if runs[date] != 1 {
			t.Errorf("%s, %+v: %d runs on %s", loc, s, runs[date], date)
		}
	}
	if len(runs) != len(dates) {
		t.Errorf("%s, %+v: runs on %d dates of %d", loc, s, len(runs), len(dates))
	}
}

// The parser's own schedule would miss the night: that is why there is another one.
func TestDailyWhereCronLosesTheNight(t *testing.T) {
	loc := zone(t, "America/New_York")
	spec, err := cron.ParseStandard("30 2 * * *")
	if err != nil {
		t.Fatal(err)
	}
	eve := time.Date(2027, 3, 13, 12, 0, 0, 0, loc)
	if lost := spec.Next(eve); lost.Day() != 15 {
		t.Errorf("cron runs at %v: it has learned it", lost)
	}
	if at := Daily(2, 30, loc).Next(eve); at.Day() != 14 {
		t.Errorf("daily runs at %v", at)
	}
}
