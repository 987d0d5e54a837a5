//go:build unix

package prove

import "syscall"

// The signals that stop a process for a while.
const (
	stopSignal     = syscall.SIGSTOP
	continueSignal = syscall.SIGCONT
)

// ownGroup returns the attributes of a process that a Ctrl-C at the terminal does not reach.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
