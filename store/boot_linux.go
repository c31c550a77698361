package store

import (
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
})

// bootClock reads CLOCK_BOOTTIME, which goes on while the machine sleeps.
func bootClock() (string, int64) {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return "", 0
	}
	return bootID(), t.Nano() / 1_000_000
}
