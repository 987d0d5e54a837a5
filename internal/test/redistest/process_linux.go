package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child when this process ends without cleaning up, as a test does that
// panics or runs into its timeout.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
