package prove

import "syscall"

// Windows cannot stop a process for a while: the numbers are those of Linux, and sending them is an error.
const (
	stopSignal     = syscall.Signal(0x13)
	continueSignal = syscall.Signal(0x12)
)

// ownGroup returns the attributes of a process that a Ctrl-C at the terminal does not reach.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
