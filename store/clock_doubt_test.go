package store

import (
	"errors"
	"testing"
	"time"
)

// The clock is doubted for each reason, the surest first; one that was set is looked at again at once, and one that
// was behind the file stays in doubt when newer rows carry its own times.
func TestClockDoubt(t *testing.T) {
	now := oldestBuild.Add(100 * time.Hour)
	clock := func() time.Time { return now }
	db := open(t, newPath(t), Options{Now: clock})
	synchronised, asked := true, error(nil)
	doubt := NewClockDoubt(db, oldestBuild.Add(50*time.Hour))
	doubt.synchronised = func() (bool, error) { return synchronised, asked }
	is := func(what, want string) {
		t.Helper()
		if got := doubt.Reason(t.Context()); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	later := func() { doubt.askedAt = doubt.askedAt.Add(-time.Minute) }

	is("a new file", "")
	synchronised = false
	is("within the second", "")
	later()
	is("nothing keeps it right", ClockUnsynchronised)
	asked = errors.New("not here")
	later()
	is("nobody can tell", "")
	synchronised, asked = true, nil
	put(t, db, TicketIssueRefund, 1)

	now = now.Add(-2 * time.Hour)
	is("set back by two hours", ClockBehindFile)
	put(t, db, TicketIssueRefund, 1)
	later()
	is("and a row written by that clock", ClockBehindFile)
	synchronised = false
	later()
	is("the surer reason", ClockBehindFile)
	now = time.Unix(0, 0)
	is("1970", ClockBeforeBuild)
	now = oldestBuild.Add(49 * time.Hour)
	is("an hour before the build", ClockBeforeBuild)
	synchronised = true
	now = oldestBuild.Add(101 * time.Hour)
	is("set right", "")

	if NewClockDoubt(db, time.Time{}).built != oldestBuild {
		t.Error("a build that does not know its date trusts any clock")
	}
}
