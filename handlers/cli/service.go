package cli

import (
	"net"
	"strconv"
	"strings"
	"time"
)

// Service tells the service manager that started this process how it fares, if there is one that asked
// (https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html). Nil tells nobody.
type Service struct {
	socket net.Conn
	every  time.Duration
}

// NewService reads $NOTIFY_SOCKET and $WATCHDOG_USEC from an environment. Who can't be reached is not told.
func NewService(environ []string) *Service {
	s := &Service{every: time.Second}
	for _, entry := range environ {
		switch name, value, _ := strings.Cut(entry, "="); {
		case name == "NOTIFY_SOCKET" && value != "":
			socket, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: value, Net: "unixgram"})
			if err != nil {
				return nil
			}
			s.socket = socket
		case name == "WATCHDOG_USEC":
			if us, err := strconv.ParseInt(value, 10, 64); err == nil && us > 0 {
				s.every = min(s.every, max(time.Millisecond, time.Duration(us)*time.Microsecond/3))
			}
		}
	}
	if s.socket == nil {
		return nil
	}
	return s
}

// States of a process, as a service manager knows them.
const (
	ServiceReady    = "READY=1"
	ServiceContent  = "WATCHDOG=1"
	ServiceStopping = "STOPPING=1"
)

// Tell sends a state. It waits for nobody: what is not heard is told again, or does not matter.
func (s *Service) Tell(state string) {
	if s == nil {
		return
	}
	_ = s.socket.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = s.socket.Write([]byte(state))
}

// Every is how often the service manager wants to hear that all is well: a third of the time that it is ready to
// wait, and a second at most.
func (s *Service) Every() time.Duration {
	if s == nil {
		return time.Second
	}
	return s.every
}
