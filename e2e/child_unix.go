//go:build unix

package e2e

import "syscall"

// canProve tells whether this system can stop and kill processes as the proofs do.
const canProve = true

// reap waits for the child and hears of every stop on the way.
func (c *child) reap() {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(c.pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err == nil && status.Stopped():
			select {
			case c.stopped <- struct{}{}:
			default: // nobody has asked for a long time
			}
		default:
			c.mu.Lock()
			c.ended = true
			c.killed = err == nil && status.Signaled() && status.Signal() == syscall.SIGKILL
			c.code = status.ExitStatus()
			c.mu.Unlock()
			return
		}
	}
}

// send sends a signal unless the child was reaped: its pid may be somebody else's then.
func (c *child) send(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		_ = syscall.Kill(c.pid, sig) // it can only fail because the child is gone
	}
}

func (c *child) kill()      { c.expectEnd(); c.send(syscall.SIGKILL) }
func (c *child) halt()      { c.send(syscall.SIGSTOP) }
func (c *child) resume()    { c.send(syscall.SIGCONT) }
func (c *child) terminate() { c.send(syscall.SIGTERM) }

// sameFilesystem reports whether two directories lie on the same one.
func sameFilesystem(a, b string) bool {
	var one, other syscall.Stat_t
	if syscall.Stat(a, &one) != nil || syscall.Stat(b, &other) != nil {
		return false
	}
	return one.Dev == other.Dev
}
