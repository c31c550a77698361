//go:build unix

package e2e

import (
	"os"
	"syscall"
)

func (s selfSignal) sendToSelf() {
	sig := syscall.SIGKILL
	if s == stop {
		sig = syscall.SIGSTOP
	}
	_ = syscall.Kill(os.Getpid(), sig)
	if s == kill {
		select {} // the signal is on its way: nothing more happens here
	}
}
