package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// Endings are the signals that end the program; one that whoever started it had ignored, as nohup does, does not.
func Endings() (signals []os.Signal) {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// OutliveReaders keeps a long-running command alive when whoever reads its log has gone: Go ends a program
// that writes to a broken standard stream unless somebody listens for the signal.
func OutliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
