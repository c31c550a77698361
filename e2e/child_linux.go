package e2e

import "syscall"

// procAttr lets a child die with us, even if we are killed.
func procAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
