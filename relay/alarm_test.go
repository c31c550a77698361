package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// twoClocks are a wall clock that is set and a clock that nobody sets.
type twoClocks struct {
	wall time.Time
	up   time.Duration
}

// pass lets time go by and counts the ticks of the alarm, which looks as often as it would.
func (c *twoClocks) pass(a *alarm, d time.Duration) (ticks int) {
	for end := c.up + d; c.up < end; {
		step := min(a.in(c.wall, c.up), end-c.up)
		c.up += step
		c.wall = c.wall.Add(step)
		if a.due(c.wall, c.up) {
			ticks++
		}
	}
	return ticks
}

func newAlarm(t *testing.T, spec string, c *twoClocks) *alarm {
	t.Helper()
	schedule, err := ParseSchedule(spec)
	if err != nil {
		t.Fatal(err)
	}
	a := &alarm{schedule: schedule}
	a.set(c.wall, c.wall, c.up)
	return a
}

// Whatever is done to the wall clock, a schedule neither stalls nor storms: at most one tick more at the step.
func TestScheduleOutlivesSteps(t *testing.T) {
	const year = 365 * 24 * time.Hour
	start := time.Date(2027, 6, 1, 12, 0, 30, 0, time.UTC)
	for _, spec := range []string{"@every 10s", "@every 1h", "*/5 * * * *", "30 2 * * *", "@hourly"} {
		for name, from := range map[string]time.Time{"1970": time.Unix(30, 0).UTC(), "2027": start} {
			for _, step := range []time.Duration{start.Sub(from), year, -year, 2 * time.Hour, -2 * time.Hour, -time.Minute} {
				c := &twoClocks{wall: from}
				a := newAlarm(t, spec, c)
				period := a.schedule.Next(a.next).Sub(a.next)
				c.pass(a, period+period/2)
				c.wall = c.wall.Add(step)
				if n := c.pass(a, time.Millisecond); n > 1 {
					t.Errorf("%s from %s, set by %v: %d ticks at once", spec, name, step, n)
				}
				if n := c.pass(a, 10*period); n < 9 || n > 11 {
					t.Errorf("%s from %s, set by %v: %d ticks in ten periods", spec, name, step, n)
				}
			}
		}
	}
}

// A machine that was asleep while a schedule came round sees that at the first look after it wakes, once.
func TestScheduleAfterSleep(t *testing.T) {
	for _, spec := range []string{"@every 1h", "@every 10s", "0 * * * *", "30 2 * * *"} {
		c := &twoClocks{wall: time.Date(2027, 6, 1, 12, 20, 0, 0, time.UTC)}
		a := newAlarm(t, spec, c)
		timer := a.in(c.wall, c.up) // that of Go, which stands still
		c.wall, c.up = c.wall.Add(20*time.Hour), c.up+20*time.Hour
		if n := c.pass(a, timer); n < 1 || timer > time.Minute {
			t.Errorf("%s: %d ticks within %v after the machine woke", spec, n, timer)
		}
	}
	c := &twoClocks{wall: time.Date(2027, 6, 1, 12, 20, 0, 0, time.UTC)}
	a := newAlarm(t, "@every 1h", c)
	c.wall, c.up = c.wall.Add(20*time.Hour), c.up+20*time.Hour
	if n := c.pass(a, time.Minute); n != 1 {
		t.Errorf("%d ticks for twenty that were slept through, want 1", n)
	}
}

// A clock that goes slow does not bring the same night twice, nor one that is set back in it.
func TestNightOnce(t *testing.T) {
	loc := zone(t, "America/New_York")
	c := &twoClocks{wall: time.Date(2027, 3, 10, 12, 0, 0, 0, loc)}
	a := &alarm{schedule: Daily(2, 30, loc)}
	a.set(c.wall, c.wall, c.up)
	runs := 0
	for day := range 30 {
		runs += c.pass(a, 24*time.Hour)
		c.wall = c.wall.Add(-time.Duration(day) * time.Second)
	}
	if runs != 30 {
		t.Errorf("%d runs in 30 days", runs)
	}
	c.pass(a, a.next.Sub(c.wall)+time.Second)
	c.wall = c.wall.Add(-2 * time.Hour)
	if n := c.pass(a, 20*time.Hour); n != 0 {
		t.Errorf("the night that was over came again %d times when the clock was set back", n)
	}
}

// A spec that names hours keeps its nights through the changes of the clock, one that does not never waits longer.
func TestSpecAtAClockChange(t *testing.T) {
	loc := zone(t, "America/New_York")
	for _, c := range []struct {
		spec  string
		want  int
		month time.Month
		day   int
	}{
		{"30 2 * * *", 1, 3, 14}, {"30 2 * * *", 1, 11, 7}, {"30 1 * * *", 1, 11, 7}, {"@daily", 1, 3, 14},
		{"0 1-3 * * *", 2, 3, 14}, {"0 1-3 * * *", 3, 11, 7}, {"@hourly", 23, 3, 14}, {"@hourly", 25, 11, 7}, {"*/30 * * * *", 50, 11, 7},
		{"CRON_TZ=America/New_York 30 2 * * *", 1, 3, 14}, {"CRON_TZ=Asia/Kathmandu 30 2 * * *", 1, 3, 14},
	} {
		s, err := ParseSchedule(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		day := time.Date(2027, c.month, c.day, 0, 0, 0, 0, loc)
		runs := 0
		for at := s.Next(day.Add(-time.Second)); at.Before(day.AddDate(0, 0, 1)); at = s.Next(at) {
			runs++
		}
		if runs != c.want {
			t.Errorf("%s on %s: %d ticks, want %d", c.spec, day.Format("2006-01-02"), runs, c.want)
		}
	}
	for _, spec := range []string{"30 2 * * *", "15 1 * * *", "0 0 * * *"} {
		s, err := ParseSchedule(spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Nuuk"} {
			checkOnceADate(t, zone(t, name), s, time.Date(2027, 1, 1, 0, 0, 0, 0, zone(t, name)))
		}
	}
}

// The loop's own ticks, on Go's timers: as many as the schedule has.
func TestLoopTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for spec, want := range map[string]int{"@every 10s": 360, "@every 1h": 1, "*/15 * * * *": 4} {
			schedule, err := ParseSchedule(spec)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			tick := make(chan struct{}, 1)
			go ring(ctx, schedule, uptime(fakeBoot), tick)
			got := 0
			for over := time.After(time.Hour + time.Second); ; {
				select {
				case <-tick:
					got++
					continue
				case <-over:
				}
				break
			}
			cancel()
			if got != want {
				t.Errorf("%s: %d ticks an hour, want %d", spec, got, want)
			}
		}
	})
}
