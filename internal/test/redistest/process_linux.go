package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child if this process ends without cleaning up, as after a panic or a timeout
// of a test.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
