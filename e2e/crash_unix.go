//go:build unix

package e2e

import (
	"os"
	"os/signal"
	"syscall"
)

// sendToSelf returns only after a stop that was continued. The signal is taken by any of the
// process's threads, and until then this one would go on, into a transaction perhaps.
func (s selfSignal) sendToSelf() {
	if s == kill {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way: nothing more happens here
	}
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-continued
}
